"""The directive ``review-live``: the lessons run through the runtime at every build, in virtual time."""

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from craig_mq.live.comparison import Comparison, compare
from craig_mq.live.differences import Difference, known_differences, named_differences, unexplained
from craig_mq.live.document import HEADINGS, rows, times, verdict
from craig_mq.live.stages import run_embedded
from craig_mq.review.lessons import LESSONS


class ReviewLive(SphinxDirective):
    """``review-live``: modeled beside actual for every lesson, then each difference once, explained."""

    def run(self) -> list[nodes.Node]:
        """Run, compare and render; a run that does not come out as modeled fails the build."""
        parts: list[str] = []
        found: dict[str, list[tuple[str, Difference]]] = {}
        for lesson in LESSONS:
            compared = compare(run_embedded(lesson.params))
            if not compared.agrees or unexplained(compared):
                raise self.error(f"{lesson.name} did not come out as modeled: {unexplained(compared)}")
            parts.append(
                f"\n## {lesson.title}\n\n{_table(compared)}\n\n{times(compared)} {verdict(compared)}\n"
            )
            for difference in named_differences(compared):
                found.setdefault(difference.name, []).append((lesson.title, difference))
        parts.append("\n## The differences, explained\n")
        parts += [_explained(seen) for seen in found.values()]
        parts.append(
            "\n## Differences these runs did not show\n\nOn a real RabbitMQ, or with other parameters:\n"
        )
        parts += [
            f"\n### {_title(name)}\n\n{why}\n"
            for name, why in known_differences().items()
            if name not in found
        ]
        return self.parse_text_to_nodes("\n".join(parts), allow_section_headings=True)


def _table(compared: Comparison) -> str:
    lines = ["| " + " | ".join(HEADINGS) + " |", "|---" * len(HEADINGS) + "|"]
    lines += ["| " + " | ".join(row) + " |" for row in rows(compared)]
    return "\n".join(lines)


def _explained(seen: list[tuple[str, Difference]]) -> str:
    title, first = seen[0]
    return (
        f"\n### {_title(first.name)}\n\n{first.why}\n\n"
        f"In {len(seen)} of {len(LESSONS)} lessons; in *{title}*: {first.seen}\n"
    )


def _title(name: str) -> str:
    return name[0].upper() + name[1:]


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("review-live", ReviewLive)
    return {"parallel_read_safe": True}
