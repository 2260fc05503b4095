"""Searching for a part in a collection: what the index loses against brute force, and whether its answers are right."""

from typing import TYPE_CHECKING

from geco.system import lazy

if TYPE_CHECKING:
    from geco.evaluation.search.answers import Answers, ask, brute_force
    from geco.evaluation.search.questions import Gallery, Question, draw_questions, gather
    from geco.evaluation.search.summary import run, summarise

__all__, __getattr__, __dir__ = lazy.door(__name__)
