from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memu_fs.index.slice import LIMIT, TARGET, Slice, estimate_tokens, slice_markdown

SENTENCE = "The heron waits beside the weir until the water settles. "

blocks = st.sampled_from(
    [
        "# One",
        "## Two words",
        "### ",
        "Setext\n===",
        "Short paragraph.",
        SENTENCE * 9,
        SENTENCE * 40,
        "**Ida:** a turn of a talk",
        "- a\n- b\n  - c\n\n    more of c\n- d",
        "1. " + SENTENCE * 12 + "\n\n   " + SENTENCE * 14 + "\n   - nested",
        "> [!note] Title\n> quoted\n>\n> - item",
        "> " + SENTENCE * 30,
        "| a | b |\n|---|---|\n" + "| cell | other cell |\n" * 50,
        "```python\n# no heading\n\n---\n```",
        "~~~\n" + "call(argument_one, 42)\n" * 60 + "~~~",
        "```unclosed\nx",
        "    indented code\n\n    more",
        "<div>\n<b>x</b>\n</div>",
        "---",
        "***",
        "[ref]: https://example.org 'title'",
        "%%hidden%% ^block-id",
        "$$\nx = 1\n$$",
        "漢字かな交じり文。" * 60,
        "x" * 900,
        "e" + "\u0301" * 300,
        "\u2028\x0b\x85",
        "\r",
        "\0",
        "\ud800 \udc00",
    ]
)
wild = st.text(alphabet=st.characters(codec=None), max_size=300)
marked = st.text(alphabet="#-*>`~| \t\n\r\0[]()<!=_+1.:ab\u3002\ud83d\u0301", max_size=200)
bodies = st.one_of(
    wild,
    marked,
    st.lists(st.one_of(blocks, marked, wild), max_size=12).flatmap(
        lambda parts: st.sampled_from(["\n", "\n\n", "\r\n\r\n", "\n\n  "]).map(lambda gap: gap.join(parts))
    ),
)


def check(body: str, slices: tuple[Slice, ...], first_line: int = 1) -> None:
    end = 0
    for each in slices:
        assert end <= each.start < each.end
        assert not body[end : each.start].strip()
        assert each.text == body[each.start : each.end].replace("\r\n", "\n")
        assert each.text == each.text.strip()
        first = first_line + body.count("\n", 0, each.start)
        assert each.lines == (first, first + body.count("\n", each.start, each.end))
        assert estimate_tokens(each.prefix) + estimate_tokens(each.text) <= LIMIT
        end = each.end
    assert not body[end:].strip()


@settings(max_examples=300, deadline=None)
@given(body=bodies, first_line=st.integers(1, 50), title=st.one_of(st.just("One"), wild))
def test_slices_cover_the_body_in_order_and_fit_the_window(body: str, first_line: int, title: str) -> None:
    check(body, slice_markdown(body, first_line=first_line, title=title), first_line)


@settings(max_examples=150, deadline=None)
@given(body=bodies)
def test_appending_a_paragraph_leaves_all_slices_but_the_last(body: str) -> None:
    before = slice_markdown(body)
    assert slice_markdown(body + "\n\nappended")[: len(before) - 1] == before[:-1]


@settings(max_examples=100, deadline=None)
@given(body=bodies)
def test_slicing_twice_gives_the_same(body: str) -> None:
    assert slice_markdown(body, title="t") == slice_markdown(body, title="t")


@settings(max_examples=100, deadline=None)
@given(left=wild, right=wild)
def test_texts_apart_cost_what_they_cost_together(left: str, right: str) -> None:
    apart = estimate_tokens(left) + estimate_tokens(right)
    assert apart - 1 <= estimate_tokens(f"{left} {right}") <= apart


@pytest.mark.parametrize("body", ["", "\n\n", " \t\r\n \x0b\u2028\u3000"])
def test_a_body_of_white_space_has_no_slices(body: str) -> None:
    assert slice_markdown(body) == ()


def test_a_heading_belongs_to_what_follows() -> None:
    (one,) = slice_markdown("# Owls\n\n## Barn owl\n\nHunts at dusk.\n")
    assert one.text == "# Owls\n\n## Barn owl\n\nHunts at dusk."
    assert one.heading == "Owls > Barn owl"
    assert one.prefix == ""


def test_a_heading_with_nothing_under_it_is_a_slice() -> None:
    empty, after = slice_markdown("# Owls\n\n## Empty\n\n## Barn owl\n\nHunts at dusk.\n")
    assert (empty.text, empty.heading) == ("# Owls\n\n## Empty", "Owls > Empty")
    assert (after.heading, after.prefix) == ("Owls > Barn owl", "Owls")


def test_the_prefix_has_title_and_the_headings_that_the_text_lacks() -> None:
    body = f"# Owls\n\n## Barn owl\n\n{SENTENCE * 9}\n\n{SENTENCE * 9}"
    first, second = slice_markdown(body, title="Birds")
    assert first.prefix == "Birds"
    assert second.prefix == "Birds\nOwls > Barn owl"
    assert second.text == (SENTENCE * 9).strip()


def test_a_first_heading_equal_to_the_title_is_not_repeated() -> None:
    body = f"# Owls\n\n{SENTENCE * 9}\n\n{SENTENCE * 9}"
    assert [each.prefix for each in slice_markdown(body, title="owls")] == ["owls", "owls"]
    assert [each.heading for each in slice_markdown(body, title="owls")] == ["Owls", "Owls"]


def test_a_heading_closes_those_of_its_level_and_below() -> None:
    body = "# A\nx\n### B\nx\n## C\nx\n### D\nx\n# E\nx"
    assert [each.heading for each in slice_markdown(body)] == ["A", "A > B", "A > C", "A > C > D", "E"]


def test_setext_lines_make_headings() -> None:
    (one,) = slice_markdown("Barn\nowl\n========\n\nHunts at dusk.")
    assert one.heading == "Barn owl"


def test_headings_within_quotes_and_lists_open_no_section() -> None:
    (one,) = slice_markdown("> # Quoted\n\n- # Listed\n\ntext")
    assert one.heading == ""


def test_a_comment_in_a_fence_is_no_heading_and_a_rule_in_it_no_end() -> None:
    (one,) = slice_markdown("# Deploy\n\n```sh\n# copy\n---\nrsync a b\n```\n")
    assert one.heading == "Deploy"
    assert one.text.endswith("rsync a b\n```")


def test_small_neighbours_are_joined_up_to_the_target() -> None:
    turns = "\n\n".join(f"**Ida:** turn number {n}, some words long" for n in range(40))
    slices = slice_markdown(turns)
    assert 4 < len(slices) < 14
    assert all(estimate_tokens(each.text) <= TARGET for each in slices)
    assert all(each.text.startswith("**Ida:**") for each in slices)


def test_neighbours_under_different_headings_are_not_joined() -> None:
    assert len(slice_markdown("# A\n\nx\n\n# B\n\ny")) == 2


def test_a_paragraph_that_fits_stays_whole_and_a_longer_one_is_cut_at_sentence_ends() -> None:
    assert len(slice_markdown(SENTENCE * 18)) == 1
    slices = slice_markdown(SENTENCE * 40)
    assert len(slices) > 3
    assert all(each.text.endswith("settles.") for each in slices)


def test_text_without_spaces_is_cut_at_its_own_sentence_ends() -> None:
    slices = slice_markdown("倉庫を春に移転する。" * 50)
    assert len(slices) > 3
    assert all(each.text.endswith("。") for each in slices)


def test_a_sentence_too_long_is_cut_at_white_space() -> None:
    slices = slice_markdown("heron " * 600)
    assert {word for each in slices for word in each.text.split()} == {"heron"}


def test_no_character_of_several_code_points_is_cut() -> None:
    family = "👩\u200d👩\u200d👧\u200d👦"
    for unit in ("e\u0301\u0323", "👍🏽", family, "\ud83d\ude00"):
        slices = slice_markdown("ab" + unit * 400)
        assert len(slices) > 1
        assert all(each.text.replace("ab", "", 1).replace(unit, "") == "" for each in slices)


def test_a_table_is_cut_between_rows_and_repeats_its_head() -> None:
    rows = [f"| part-{n} | shelf {n} |" for n in range(300)]
    slices = slice_markdown("\n".join(["| Part | Place |", "|------|:------|", *rows]))
    assert len(slices) > 5
    assert [line for each in slices for line in each.text.split("\n")][2:] == rows
    assert all(each.prefix == "| Part | Place |\n|-|:-|" for each in slices[1:])
    assert slices[0].prefix == ""


def test_a_fence_is_kept_whole_or_cut_at_line_ends_repeating_its_opening() -> None:
    lines = [f"    step_{n}(argument, other)" for n in range(90)]
    short = slice_markdown("Before.\n\n" + "\n".join(["```python", *lines[:15], "```"]))
    assert any(each.text.endswith("```") and "```python" in each.text for each in short)
    slices = slice_markdown("\n".join(["```python run", *lines, "```"]))
    assert len(slices) > 3
    found = [line.strip() for each in slices for line in each.text.split("\n")]
    assert found == ["```python run", *(line.strip() for line in lines), "```"]
    assert all(each.prefix == "```python run" for each in slices[1:])


def test_a_list_is_cut_between_items_and_children_stay_with_their_parent() -> None:
    item = f"- {SENTENCE}\n  - child one\n  - child two"
    slices = slice_markdown("\n".join([item] * 20))
    assert len(slices) > 3
    assert all(each.text.startswith("- The heron") and each.text.endswith("child two") for each in slices)


def test_an_item_cut_off_from_its_parent_repeats_it() -> None:
    children = [f"  - step {n} with a few words that say what to do" for n in range(40)]
    slices = slice_markdown("\n".join(["- Restore the mill", *children]))
    assert len(slices) > 2
    assert slices[0].text.startswith("- Restore the mill\n  - step 0")
    assert all(each.prefix == "Restore the mill" for each in slices[1:])


def test_a_long_callout_repeats_its_title() -> None:
    slices = slice_markdown("> [!warning] Thin ice\n>\n" + f"> {SENTENCE}\n>\n" * 40)
    assert len(slices) > 2
    assert all(each.prefix == "[!warning] Thin ice" for each in slices[1:])


@pytest.mark.parametrize("body", ["---\n\ntext", "text\n\n---", f"{SENTENCE * 18}\n\n---\n\n# A\n\nx", "# A\n\n---"])
def test_a_thematic_break_is_never_alone(body: str) -> None:
    assert all(each.text.strip("-") for each in slice_markdown(body))


def test_rules_in_the_body_lose_no_paragraph() -> None:
    body = "first\n\n---\n\nmiddle\n\n---\n\nlast"
    assert [each.text for each in slice_markdown(body)] == [body]


def test_line_ends_do_not_change_the_slices() -> None:
    body = f"# A\n\n- x\n- y\n\n```\nz\n```\n\n{SENTENCE * 30}\n\n| a |\n|---|\n| b |\n"
    unix, windows = slice_markdown(body), slice_markdown(body.replace("\n", "\r\n"))
    assert [(s.text, s.lines, s.prefix) for s in unix] == [(s.text, s.lines, s.prefix) for s in windows]


def test_only_newlines_count_as_lines() -> None:
    (one,) = slice_markdown("a\x0bb\u2028c\x85d\re\n\nf", first_line=7)
    assert one.lines == (7, 9)


def test_very_long_headings_and_table_heads_leave_room_for_text() -> None:
    body = f"# {'long ' * 900}\n\n| {'head ' * 900} |\n|---|\n" + "| cell |\n" * 200
    slices = slice_markdown(body, title="title " * 500)
    check(body, slices)
    assert all(estimate_tokens(each.prefix) < 200 for each in slices)
    assert all(estimate_tokens(each.heading) <= 60 for each in slices)


def test_a_small_edit_changes_few_slices() -> None:
    paragraphs = [f"Turn {n}: " + "some words " * (n * 7 % 23) for n in range(200)]
    before = {each.text for each in slice_markdown("\n\n".join(paragraphs))}
    paragraphs[20] += "and one more sentence, of a dozen words, that was not there"
    after = slice_markdown("\n\n".join(paragraphs))
    assert sum(each.text not in before for each in after) <= 4


@pytest.mark.parametrize(
    "unit",
    [
        ">",
        "> ",
        "- ",
        "[",
        "[\n",
        "|a",
        "`",
        "```\n",
        "#",
        "# a\n",
        "---\n",
        "- a\n",
        ">> a\n",
        ".",
        ".'",
        "。",
        "\u0301",
    ],
)
def test_endless_repetition_is_cut_like_text(unit: str) -> None:
    body = unit * 10_000
    check(body, slice_markdown(body))


def test_deep_nesting_is_cut_like_text() -> None:
    for body in (
        "".join(f"{' ' * 2 * n}- level {n}\n" for n in range(500)),
        ">" * 10_000 + " end",
        "- " * 10_000 + "end",
        "> - " * 3_000 + "end",
    ):
        check(body, slice_markdown(body))


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        ("The quick brown fox jumps over the lazy dog.", 10, 12),
        ("getUserName(account_id)", 7, 10),
        ("8199be6f699a395f99f89df973f9dc52", 16, 32),
        ("大阪の倉庫を移転する", 10, 10),
        ("안녕하세요", 10, 13),
        ("", 0, 0),
        ("--- ===", 6, 6),
    ],
)
def test_estimates_are_near_what_word_piece_models_use(text: str, least: int, most: int) -> None:
    assert least <= estimate_tokens(text) <= most
