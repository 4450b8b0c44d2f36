"""The page of a search within a budget: every candidate is drawn once in each picture, where its numbers say."""

from xml.etree import ElementTree

from isogloss.report.frontier_page import Point, by_size, frontier_page, frontier_picture

POINTS = [
    Point(60.0, 900.0, 0.91, "dropped", "corpus: 9,000 pieces", "6 of 12 layers", 384, "int8"),
    Point(30.0, 1500.0, 0.85, "train", "<b>", "4 of 12 layers", 384, "int8"),
    Point(90.0, 400.0, 0.80, "quiet", "all pieces", "12 of 12 layers", 384, "fp16"),
]
BUDGET = (64.0, "budget: 64.0 MB")


def dots(picture: str) -> list[dict[str, str]]:
    return [dot.attrib for dot in ElementTree.fromstring(picture).iter() if dot.tag.endswith("circle")]


def test_dots_are_where_their_numbers_say() -> None:
    found = {dot["data-kind"]: (float(dot["cx"]), float(dot["cy"])) for dot in dots(str(by_size(POINTS, BUDGET, 600)))}
    across = [found[kind][0] for kind in ("train", "dropped", "quiet")]
    assert abs((across[1] - across[0]) - (across[2] - across[1])) < 0.5  # 30, 60 and 90 MB
    down = [found[kind][1] for kind in ("dropped", "train", "quiet")]
    assert down == sorted(down) and abs((down[1] - down[0]) / (down[2] - down[1]) - 6 / 5) < 0.02


def test_chosen_one_is_drawn_over_the_others() -> None:
    assert [dot["data-kind"] for dot in dots(str(by_size(POINTS, BUDGET, 600)))] == ["quiet", "train", "dropped"]


def test_budget_is_marked_unless_it_is_far_away() -> None:
    assert 'data-kind="mark"' in by_size(POINTS, BUDGET, 600) and "budget: 64.0 MB" in by_size(POINTS, BUDGET, 600)
    assert 'data-kind="mark"' not in by_size(POINTS, (500.0, "budget"), 600)
    assert 'data-kind="mark"' in by_size(POINTS, (120.0, "budget"), 600)


def test_picture_is_a_file_of_its_own() -> None:
    picture = ElementTree.fromstring(frontier_picture(POINTS, BUDGET))
    assert picture.tag == "{http://www.w3.org/2000/svg}svg"
    style = "".join(picture.itertext())
    used = {text.split("var(--")[1].split(")")[0] for one in picture.iter() for text in one.attrib.values() if "var(--" in text}
    assert all(f"--{name}:" in style for name in used)


def test_page_has_everything_in_escaped_text() -> None:
    languages = [("average", 0.92, 0.91, 1.0), ("de", 0.9, 0.91, -1.0)]
    page = frontier_page("What fits", "How it was measured.", "lost <much>.", POINTS, BUDGET, languages)
    ElementTree.fromstring(page.removeprefix("<!DOCTYPE html>"))
    assert page.count("<circle") == 4 * len(POINTS) and "<td><b></td>" not in page and "&lt;b&gt;" in page
    assert "<strong>Clearly worse: lost &lt;much&gt;.</strong>" in page
    assert "-1.0" in page and "60.0 MB" in page and page.count("chosen") >= 3
    assert page.index(">30.0</th>") < page.index(">60.0</th>") < page.index(">90.0</th>")
