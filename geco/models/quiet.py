"""Quiet: the messages and progress bars of transformers are not shown."""

from typing import Any


class QuietTransformers:
    """Within it transformers, if installed, neither shows a progress bar nor reports: a library does not print."""

    def __enter__(self) -> None:
        self._logging: Any = None
        try:
            from transformers.utils import logging
        except ImportError:  # there are backbones without it; whatever needs it says so
            return
        self._logging = logging
        self._verbosity, self._bar = logging.get_verbosity(), logging.is_progress_bar_enabled()
        logging.set_verbosity_error()
        logging.disable_progress_bar()

    def __exit__(self, *_: object) -> None:
        if self._logging is None:
            return
        self._logging.set_verbosity(self._verbosity)
        if self._bar:
            self._logging.enable_progress_bar()
