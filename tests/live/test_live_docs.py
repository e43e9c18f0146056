"""The page about the live review is what its runs came to."""

import html
import re
import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_is_generated_from_the_runs(tmp_path):
    """The page puts modeled beside actual for all eight lessons and explains each difference once."""
    lines = [
        "import sys",
        f"sys.path[:0] = {[str(DOCS.parent), str(DOCS / '_ext')]}",
        "extensions = ['myst_parser', 'review_live']",
    ]
    (tmp_path / "conf.py").write_text("\n".join(lines))
    page = DOCS / "explanation" / "review_live.md"
    (tmp_path / "index.md").write_text(page.read_text(encoding="utf-8"), encoding="utf-8")
    command = [sys.executable, "-W", "ignore", "-m", "sphinx", "-q", "-b", "html", "-c", str(tmp_path)]
    subprocess.run([*command, str(tmp_path), str(tmp_path / "html")], check=True)
    built = (tmp_path / "html" / "index.html").read_text(encoding="utf-8")
    text = " ".join(html.unescape(re.sub("<[^>]*>", " ", built)).split())
    assert text.count("end states are exactly the modeled ones.") == 8
    assert text.count("uncertain modeled") == 8
    assert [text.count(words) for words in ("A capture’s reason says", "Written is not received")] == [1, 1]
