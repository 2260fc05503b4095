"""How the page of `geco app` is served, and what it refuses."""

import ipaddress
from dataclasses import dataclass

from geco.errors import InputError
from geco.system import strict

LOCAL = "127.0.0.1"


@dataclass(frozen=True)
class AppSettings:
    """Where the page is served, and what one visitor and all of them together may use."""

    host: str = LOCAL
    port: int | None = None  # None: the first free one from 7860
    share: bool = False  # a public address, through gradio's servers
    megabytes: float = 20.0  # of an uploaded file
    megapixels: float = 50.0  # of an image, refused before it is decoded
    side: int = 1024  # pixels: larger images are scaled down to this; encoders see less than half of it
    images: int = 40  # of a session; each takes up to 10 MB with its features
    points: int = 30  # of an image
    steps: int = 100  # that can be undone
    sessions: int = 16
    minutes: float = 30.0  # without a request, after which a session and its images are deleted
    waiting: int = 16  # requests that may wait for the processor; more are refused

    def __post_init__(self) -> None:
        strict.check(self)
        strict.within(self, "megabytes", above=0, most=1000)
        strict.within(self, "megapixels", above=0, most=1000)
        strict.within(self, "side", least=64, most=4096)
        strict.within(self, "images", least=2, most=100)
        strict.within(self, "points", least=1, most=200)
        strict.within(self, "steps", "sessions", "waiting", least=1, most=10_000)
        strict.within(self, "minutes", above=0, most=10_000)
        if self.port is not None:
            strict.within(self, "port", least=1, most=65535)
        if self.host != "localhost":
            try:
                ipaddress.ip_address(self.host)
            except ValueError:
                raise InputError(
                    f"host must be an address of this machine ({LOCAL}; 0.0.0.0 for all), got {self.host[:60]!r}"
                ) from None

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach the page."""
        return not self.share and (self.host == "localhost" or ipaddress.ip_address(self.host).is_loopback)
