"""The page of review: data that cannot break out of it."""

import base64
import io
import json
import re

import torch
from PIL import Image

from geco import viz
from geco.types import Skeleton


def data_of(page):
    return json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])


def test_names_of_files_are_text_wherever_they_stand():
    nasty = '</script><script>alert("x")</script>.jpg'
    shown = viz.Shown(torch.tensor([[1.234, torch.nan]]), torch.tensor([2]), torch.tensor([0.25]), [True])
    card = viz.Card(nasty, nasty, torch.zeros(3, 600, 900, dtype=torch.uint8), [shown])
    page = viz.review_page(
        [card], Skeleton((nasty,), (0,), (0,)), [], title=nasty, category=nasty, following=[nasty], total=1
    )
    assert page.count("<script") == 2
    assert "alert(" not in re.sub(r'id="data">.*?</script>', "", page, flags=re.DOTALL).replace("alert(&quot;", "")
    data = data_of(page)
    assert data["names"] == data["next"] == [nasty]
    (image,) = data["images"]
    assert (image["name"], image["width"], image["height"]) == (nasty, 900, 600)
    assert image["animals"] == [[[1.23, None, 2, 0.25, 1]]]
    picture = Image.open(io.BytesIO(base64.b64decode(image["picture"].split(",")[1])))
    assert (picture.format, picture.size) == ("JPEG", (480, 320))
