"""Where the page is served, and what is refused."""

import pytest

from geco.demo.settings import AppSettings
from geco.errors import InputError


def test_by_default_nobody_else_can_reach_the_page():
    settings = AppSettings()
    assert (settings.host, settings.share, settings.is_local) == ("127.0.0.1", False, True)
    assert AppSettings(host="::1").is_local
    assert AppSettings(host="localhost").is_local
    assert not AppSettings(host="0.0.0.0").is_local
    assert not AppSettings(share=True).is_local


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"host": "example.org"}, "host must be an address of this machine"),
        ({"host": ""}, "host must be an address"),
        ({"port": 0}, "port"),
        ({"port": 70000}, "port"),
        ({"share": "yes"}, "share"),
        ({"megabytes": 0}, "megabytes"),
        ({"megapixels": float("nan")}, "megapixels"),
        ({"minutes": -1}, "minutes"),
        ({"waiting": 0}, "waiting"),
        ({"images": 1}, "images"),
    ],
    ids=str,
)
def test_settings_that_make_no_sense_are_refused(change, message):
    with pytest.raises(InputError, match=message):
        AppSettings(**change)
