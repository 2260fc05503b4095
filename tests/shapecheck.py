"""The checker behind the shape annotations while testing: an int may stand where a float is asked for, as in Python."""

from beartype import BeartypeConf, beartype

check = beartype(conf=BeartypeConf(is_pep484_tower=True))
