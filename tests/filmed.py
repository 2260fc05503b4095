"""Videos written frame by frame with PyAV, and damage done to their files."""

import struct
from fractions import Fraction

import numpy as np

ONE = 1 << 16  # of a display matrix
TURNS = {  # clockwise: a, b, u, c, d, v, x, y, w
    0: (ONE, 0, 0, 0, ONE, 0, 0, 0, ONE << 14),
    90: (0, ONE, 0, -ONE, 0, 0, 0, 0, ONE << 14),
    180: (-ONE, 0, 0, 0, -ONE, 0, 0, 0, ONE << 14),
    270: (0, -ONE, 0, ONE, 0, 0, 0, 0, ONE << 14),
}
MIRRORED = (-ONE, 0, 0, 0, ONE, 0, 0, 0, ONE << 14)


def write_video(path, pictures, times=None, *, rate=20, lossless=True):
    """A video of RGB arrays (h, w, 3), shown at these milliseconds; its index comes first, so that it can be cut."""
    import av

    height, width = pictures[0].shape[:2]
    times = times or [round(1000 * number / rate) for number in range(len(pictures))]
    options = {"movflags": "faststart"} if path.suffix == ".mp4" else {}
    with av.open(str(path), "w", options=options) as container:
        quality = {"qp": "0", "g": "5", "bf": "0"} if lossless else {"crf": "23", "g": "5"}
        stream = container.add_stream("libx264", rate=rate, options=quality)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv444p" if lossless else "yuv420p"
        stream.time_base = stream.codec_context.time_base = Fraction(1, 1000)
        for picture, time in zip(pictures, times, strict=True):
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(picture), format="rgb24")
            frame.pts, frame.time_base = time, Fraction(1, 1000)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


def with_matrix(path, matrix, output):
    """A copy of an MP4 whose track header has this display matrix."""
    raw = path.read_bytes()
    # After the name: version and flags; times, id and length; nothing; layer to volume.
    start = raw.index(b"tkhd") + 4 + 4 + 5 * 4 + 8 + 8
    output.write_bytes(raw[:start] + struct.pack(">9i", *matrix) + raw[start + 36 :])
    return output


def noise(count, size=(48, 64), seed=0):
    """Pictures of coarse noise, different from frame to frame."""
    random = np.random.default_rng(seed)
    coarse = random.integers(0, 255, (count, size[0] // 8, size[1] // 8, 3), dtype=np.uint8)
    return list(coarse.repeat(8, axis=1).repeat(8, axis=2))
