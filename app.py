"""A Space, or any other host that runs `python app.py`: the page of `geco app`, reachable from outside."""

import os

import geco
from geco import demo

settings = demo.AppSettings(host="0.0.0.0", port=int(os.environ.get("PORT", "7860")))
demo.serve(demo.Studio(demo.of_model(geco.load()), settings)).wait()
