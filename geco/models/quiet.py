"""Quiet: what transformers reports and shows is not for people who use geco."""


class QuietTransformers:
    """Within it transformers neither shows a progress bar nor reports: a library does not print."""

    def __enter__(self) -> None:
        from transformers.utils import logging

        self.verbosity, self.bar = logging.get_verbosity(), logging.is_progress_bar_enabled()
        logging.set_verbosity_error()
        logging.disable_progress_bar()

    def __exit__(self, *_: object) -> None:
        from transformers.utils import logging

        logging.set_verbosity(self.verbosity)
        if self.bar:
            logging.enable_progress_bar()
