"""Directives of the dead-letter review: its lessons and parameters, computed by the model at every build."""

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from craig_mq.review import Run, caption, outcome, simulate, to_query, trace
from craig_mq.review.lessons import LESSONS, Lesson
from craig_mq.review.params import PARAMETERS


class ReviewLessons(SphinxDirective):
    """``review-lessons``: one section per lesson, with its text, its command and its run's outcome."""

    def run(self) -> list[nodes.Node]:
        """Render all eight."""
        text = "\n".join(_lesson(number, lesson) for number, lesson in enumerate(LESSONS, start=1))
        return self.parse_text_to_nodes(text, allow_section_headings=True)


class ReviewParameters(SphinxDirective):
    """``review-parameters``: name, default, domain, URL key and listed choices."""

    def run(self) -> list[nodes.Node]:
        """Render one row per parameter."""
        lines = ["| parameter | default | allowed | listed choices | URL key |", "|---|---|---|---|---|"]
        for one in PARAMETERS:
            listed = ", ".join(one.domain.write(value) for value in one.domain.listed)
            default = one.domain.write(one.default)
            lines.append(f"| `{one.name}` | {default} | {one.domain.allowed} | {listed} | `{one.key}` |")
        return self.parse_text_to_nodes("\n".join(lines))


class ReviewTrace(SphinxDirective):
    """``review-trace``: the default run, one line per transition, and its last sentence."""

    def run(self) -> list[nodes.Node]:
        """Render the trace as the command line prints it."""
        run = simulate(LESSONS[0].params)
        lines = "\n".join(trace(run))
        return self.parse_text_to_nodes(f"```text\n{lines}\n```\n\n> {caption(run, len(run.events))}\n")


def _lesson(number: int, lesson: Lesson) -> str:
    run = simulate(lesson.params)
    changes = [
        f" --set {parameter.name}={parameter.domain.write(value)}"
        for parameter in PARAMETERS
        if (value := getattr(lesson.params, parameter.name)) != parameter.default
    ]
    return (
        f"\n## {number}. {lesson.title}\n\n{lesson.text}\n\n"
        f"```console\n$ craig-mq review run{''.join(changes)}\n```\n\n{_table(run)}\n\n"
        f"On the page: `?{to_query(lesson.params, len(run.events))}`.\n"
    )


def _table(run: Run) -> str:
    end = outcome(run)
    lines = [
        "| message | ends | key | receives | effects | deduplication hits |",
        "|---|---|---|---|---|---|",
    ]
    for name, status in end["status"].items():
        counts = (end["total_receives"][name], end["effects"][name], end["dedup_hits"][name])
        lines.append(f"| {name} | {status} | `{end['key'][name]}` | {' | '.join(map(str, counts))} |")
    lines.append(f"| **all** | | | | **{end['effects_total']}** | |")
    return "\n".join(lines)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directives."""
    app.add_directive("review-lessons", ReviewLessons)
    app.add_directive("review-parameters", ReviewParameters)
    app.add_directive("review-trace", ReviewTrace)
    return {"parallel_read_safe": True}
