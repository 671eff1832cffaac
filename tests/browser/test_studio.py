"""The studio in a browser: typing, switching a head off, and a link that holds it all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.browser.conftest import served, wait_for
from tests.serving.test_attention import InProcess, language_model
from tests.serving.test_tasks import classifier, png, translator, viewer

TOKENS = "regard.data.maps[0].query.tokens.length"


@pytest.fixture
def studio(randomize: Any) -> Iterator[str]:
    """The address of a studio over a small language model and a classifier."""
    models = {"lm": language_model, "yesno": classifier, "pair": translator, "sees": viewer, "lm@last": language_model}
    models["many"] = lambda randomize: translator(randomize, ("german", "french"))
    with served(link=InProcess(**{name: make(randomize) for name, make in models.items()})) as address:
        yield f"{address}/studio#token=secret"


def typed(page: Any, text: str = "a cat sat", tokens: int = 10) -> None:
    page.fill("#reads", text)
    wait_for(page, f"{TOKENS} === {tokens}")


def played(page: Any, tokens: int) -> None:
    """Text written on after what was typed."""
    typed(page)
    page.click("#playback-title")
    page.fill("#tokens", str(tokens))
    page.click("#write")
    page.wait_for_selector("#step-bars .chosen")


def test_typing_changes_the_map_and_keeps_the_view(opened, studio):
    page = opened(studio)
    typed(page)
    page.select_option("#address", "layers.2.attention")
    page.select_option("#head", "3")
    page.click("#reads")
    page.keyboard.press("Control+End")
    page.keyboard.type(" on")
    wait_for(page, "regard.data.maps[0].query.tokens.length === 13")
    assert page.input_value("#address") == "layers.2.attention"
    assert page.input_value("#head") == "3"
    assert page.locator("#answer-bars tr").count() == 10


def test_a_head_switched_off_changes_the_answer_and_a_link_holds_it(opened, studio):
    page = opened(studio)
    page.fill("#reads", "a cat sat")
    page.select_option("#address", "layers.1.attention")
    page.select_option("#head", "0")
    page.click("#switch-off")
    page.wait_for_selector("#changed li")
    wait_for(page, "document.querySelector('#answer-title').textContent.includes('with the changes')")
    assert "was" in page.inner_text("#answer-bars")
    bars = page.inner_text("#answer-bars")
    wait_for(page, "location.hash.includes('changes')")
    again = opened(page.url)
    wait_for(again, "document.querySelectorAll('#changed li').length === 1")
    assert again.inner_text("#answer-bars") == bars
    assert again.input_value("#reads") == "a cat sat"
    assert again.input_value("#address") == "layers.1.attention"
    assert again.evaluate("studio.key") == "secret"
    again.click("#changed button")
    wait_for(again, "!document.querySelector('#answer-title').textContent.includes('changes')")


def test_a_link_holds_the_cell_beside_the_key_of_the_server(opened, studio):
    page = opened(studio)
    typed(page)
    page.focus("#figure")
    page.keyboard.press("Home")
    for _ in range(2):
        page.keyboard.press("ArrowUp")
        page.keyboard.press("ArrowRight")
    assert page.evaluate("[regard.state.row, regard.state.column]") == [7, 2]
    wait_for(page, "location.hash.includes('query=7&key=2') && location.hash.includes('a+cat+sat')")
    again = opened(page.url)
    wait_for(again, "regard.state.row === 7 && regard.state.column === 2")
    assert again.input_value("#reads") == "a cat sat"
    again.fill("#reads", "a")
    wait_for(again, "location.hash.includes('text=a&')")
    again.evaluate("address => { location.hash = address }", page.url.partition("#")[2])
    wait_for(again, "regard.state.row === 7 && regard.state.column === 2")


def test_the_button_names_the_head_that_it_switches_however_it_was_chosen(opened, studio):
    page = opened(studio)
    typed(page)
    page.select_option("#address", "layers.1.attention")
    page.select_option("#head", "0")
    page.focus("#figure")
    for key, head in [("]", "1"), ("]", "2"), ("[", "1")]:
        page.keyboard.press(key)
        wait_for(page, f"regard.state.head === {head}")
        name = page.inner_text("#switch-off")
        assert name.lower() == f"switch off: layer 1, head {head}"
    page.click("#tab-heads")
    page.click("#all-heads")
    wait_for(page, "regard.state.on.size === 4")
    assert page.inner_text("#switch-off").endswith(", all heads")
    page.click("#all-heads")
    wait_for(page, "document.querySelector('#switch-off').disabled")
    page.click("#tab-model")
    page.focus("#figure")
    page.keyboard.press("ArrowRight")
    wait_for(page, "document.querySelector('#switch-off').textContent.endsWith(', head 2')")
    page.click("#switch-off")
    page.wait_for_selector("#changed li")
    assert page.inner_text("#changed li").lower().startswith("layer 1, head 2 ×")
    wait_for(page, "document.querySelector('#answer-title').textContent.includes('with the changes')")
    page.click("#effects summary")
    page.click("#effects-start")
    wait_for(page, "document.querySelector('#effects-caption').textContent.endsWith(' as it is now')")


def test_another_model_and_what_is_wrong_is_said(opened, studio):
    page = opened(studio)
    page.fill("#reads", "the cat")
    page.select_option("#model", "yesno")
    wait_for(page, "document.querySelectorAll('#answer-bars tr').length === 3")
    page.fill("#reads", "a </script> <b>")
    wait_for(page, "regard.data.maps[0].query.tokens.length > 6")
    page.fill("#reads", " ")
    wait_for(page, "!document.querySelector('#problem').hidden")
    assert page.inner_text("#problem") == "Type a text for the model to read."
    # Nothing of the answer before it stands there as if it were one.
    assert not page.is_visible("#answer")
    assert page.evaluate("document.querySelector('#panel').inert && document.querySelector('#switch-off').disabled")
    page.fill("#reads", "the cat")
    wait_for(page, "document.querySelector('#problem').hidden && !document.querySelector('#panel').inert")
    assert page.is_visible("#answer")


def test_a_wrong_key_and_a_server_that_is_gone_are_said_with_what_to_do(opened, studio):
    page = opened(studio.replace("secret", "other"), ready=False)
    wait_for(page, "document.querySelector('#problem').textContent.includes('open the link that the terminal printed')")
    page = opened(studio)
    page.context.set_offline(True)
    page.fill("#reads", "a cat sat")
    wait_for(page, "document.querySelector('#problem').textContent.includes('is it still running?')")
    page.context.set_offline(False)
    page.fill("#reads", "a cat")
    wait_for(page, f"document.querySelector('#problem').hidden && {TOKENS} === 6")


def test_a_text_that_vanishes_while_it_is_read_leaves_no_answer(opened, studio):
    page = opened(studio)
    waiting: list[Any] = []
    page.route("**/studio/look", lambda route: waiting.append(route))
    page.fill("#reads", "a cat sat")
    while not waiting:
        page.wait_for_timeout(20)
    page.fill("#reads", "")
    waiting[0].continue_()
    wait_for(page, "document.querySelector('#problem').textContent.startsWith('Type a text')")
    page.wait_for_timeout(100)
    assert page.is_visible("#problem")
    assert not page.is_visible("#answer")


def test_an_answer_that_does_not_come_takes_the_one_before_away(opened, studio):
    page = opened(studio)
    typed(page)
    page.click("#compare summary")
    wait_for(page, "document.querySelectorAll('#compared canvas').length === 3")
    refuse = {"status": 400, "json": {"error": {"message": "it is too long"}}}
    page.route("**/studio/look", lambda route: route.fulfill(**refuse))
    page.fill("#other-text", "a cat sat on")
    wait_for(page, "document.querySelector('#compare-note').textContent === 'it is too long'")
    assert page.locator("#compared canvas, #other-bars tr").count() == 0
    page.select_option("#model", "yesno")
    wait_for(page, "document.querySelector('#problem').textContent === 'it is too long'")
    assert not page.is_visible("#answer")
    assert page.evaluate("document.querySelector('#save-png').closest('[inert]') !== null")
    page.unroute("**/studio/look")
    page.select_option("#model", "lm")
    wait_for(page, "document.querySelectorAll('#compared canvas').length === 2")


def test_another_model_shows_its_telling_heads_however_many_the_one_before_had(opened, studio):
    page = opened(studio)
    page.select_option("#model", "sees")
    page.set_input_files("#file", {"name": "a.png", "mimeType": "image/png", "buffer": png()})
    wait_for(page, "document.querySelectorAll('#answer-bars tr').length === 7")
    page.select_option("#model", "lm")
    wait_for(page, "regard.state.map.heads === 4")
    chosen = "[regard.state.map.address, regard.state.head, ...regard.state.on]"
    after = page.evaluate(chosen)
    assert len(after) == 2 + 3
    assert opened(page.url.partition("#")[0] + "#token=secret&model=lm").evaluate(chosen) == after


def test_a_text_that_nobody_wrote_gives_way_to_one_for_the_model(opened, studio):
    page = opened(studio)
    assert page.input_value("#reads").startswith("The animal")
    page.select_option("#model", "yesno")
    wait_for(page, "document.querySelectorAll('#answer-bars tr').length === 3")
    assert page.input_value("#reads") == "I have never seen a better film."
    page.fill("#reads", "the cat")
    page.select_option("#model", "lm")
    wait_for(page, "document.querySelectorAll('#answer-bars tr').length === 10")
    assert page.input_value("#reads") == "the cat"


def test_a_text_is_played_token_by_token_and_another_token_taken(opened, studio):
    page = opened(studio)
    played(page, 8)
    count = page.locator("#written button").count()
    assert 1 < count <= 8
    assert page.evaluate(TOKENS) == 10
    page.click("#play-step")
    wait_for(page, f"{TOKENS} === 11")
    assert page.evaluate("regard.state.row") == 10
    page.click("#play-back")
    wait_for(page, f"{TOKENS} === 10")
    page.select_option("#speed", "100")
    page.click("#play")
    wait_for(page, f"{TOKENS} === {9 + count}")
    wait_for(page, "document.querySelector('#play').textContent.includes('play')")
    page.click("#play-first")
    wait_for(page, f"{TOKENS} === 10")
    before = page.inner_text("#written")
    page.click("#step-bars tr:not(.chosen) button >> nth=3")
    wait_for(page, f"document.querySelector('#written').innerText !== {before!r}")
    taken = page.inner_text("#step-bars .chosen button")
    assert page.inner_text("#written .now") == taken
    wait_for(page, "document.querySelectorAll('#lens tbody tr').length === 4")
    wait_for(page, "decodeURIComponent(location.hash).includes('\"taken\":[[0,')")
    written = page.inner_text("#written")
    again = opened(page.url)
    wait_for(again, f"document.querySelector('#written').innerText === {written!r}")


def test_playing_by_keys_alone_and_typing_ends_it(opened, studio):
    page = opened(studio)
    page.fill("#reads", "a cat")
    page.focus("#playback-title")
    page.keyboard.press("Enter")
    assert page.is_disabled("#top-k")
    page.focus("#temperature")
    page.keyboard.type("1.5")
    assert page.is_enabled("#top-k")
    page.focus("#write")
    page.keyboard.press("Enter")
    wait_for(page, "document.activeElement.id === 'play' && document.querySelectorAll('#written button').length > 1")
    page.focus("#place")
    page.keyboard.press("ArrowRight")
    wait_for(page, f"{TOKENS} === 7")
    page.focus("#step-bars tr:not(.chosen) button")
    page.keyboard.press("Enter")
    wait_for(page, "document.querySelector('#step-bars .chosen') !== null")
    page.focus("#reads")
    page.keyboard.press("Control+End")
    page.keyboard.type("s")
    wait_for(page, f"{TOKENS} === 7 && document.querySelector('#playing').hidden")


@pytest.mark.parametrize(("width", "height"), [(1280, 800), (1920, 1080)])
def test_the_map_is_in_sight_while_a_text_is_played(opened, studio, width, height):
    page = opened(studio)
    page.set_viewport_size({"width": width, "height": height})
    typed(page)
    page.click("#play-first")
    page.wait_for_selector("#step-bars .chosen")
    page.click("#play-last")
    wait_for(page, f"{TOKENS} > 10")
    figure, play, written = (page.locator(name).bounding_box() for name in ("#figure", "#play", "#written"))
    assert figure["y"] + figure["height"] < height
    assert play["y"] + play["height"] < figure["y"]
    assert figure["x"] + figure["width"] < written["x"]  # the tokens stand beside it


def test_on_a_telephone_the_map_stands_before_the_panels(opened, studio):
    page = opened(studio)
    page.set_viewport_size({"width": 390, "height": 844})
    wait_for(page, "!document.querySelector('#playback').hidden")
    places = [page.locator(name).bounding_box() for name in ("#figure", "#playback", "#patching", "#compare")]
    assert [one["y"] for one in places] == sorted(one["y"] for one in places)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_the_key_that_tabs_comes_to_the_map_before_closed_panels(opened, studio):
    page = opened(studio)
    page.focus("#reads")
    for _ in range(40):
        page.keyboard.press("Tab")
        at = page.evaluate("document.activeElement.id || document.activeElement.localName")
        if at in {"figure", "summary"}:
            break
    assert at == "figure"


def test_a_written_token_is_chosen_by_key_and_keeps_the_focus(opened, studio):
    page = opened(studio)
    typed(page)
    page.click("#play-first")
    page.wait_for_selector("#written button:nth-child(3)")
    page.focus("#written button:nth-child(3)")
    page.keyboard.press("Enter")
    wait_for(page, f"{TOKENS} === 12")
    assert page.evaluate("document.activeElement === document.querySelector('#written .now')")


def test_a_translation_is_played_over_its_tokens(opened, studio):
    page = opened(studio)
    page.select_option("#model", "pair")
    page.fill("#reads", "abc def")
    wait_for(page, "regard.data.maps[0].kind === 'cross' && !document.querySelector('#playback').hidden")
    count = page.evaluate(TOKENS)
    page.click("#playback-title")
    page.click("#play-first")
    wait_for(page, f"{TOKENS} === 1")
    for _ in range(count):
        page.click("#play-step")
    wait_for(page, f"{TOKENS} === {count}")
    assert page.evaluate("regard.state.row") == count - 1
    assert not page.is_visible("#write")


def test_a_weight_is_set_by_hand_and_undone(opened, studio):
    page = opened(studio)
    page.fill("#reads", "a cat sat")
    page.select_option("#address", "layers.1.attention")
    page.select_option("#head", "mean")
    wait_for(page, "document.querySelector('#weigh-set').disabled")
    assert page.inner_text("#weigh-where") == "choose one head to set a weight"
    page.select_option("#head", "2")
    page.focus("#figure")
    page.keyboard.press("Control+Home")
    for key in ["ArrowDown"] * 5 + ["ArrowRight"] * 2:
        page.keyboard.press(key)
    wait_for(page, "studio.seen?.wanted.text === 'a cat sat' && regard.state.row === 5 && regard.state.column === 2")
    before = page.evaluate("[...regard.state.matrix.row(5)].slice(0, 6)")
    page.fill("#weigh-value", "1.5")
    page.keyboard.press("Enter")
    assert "from 0 to 1" in page.inner_text("#problem")
    page.fill("#weigh-value", "0.5")
    page.keyboard.press("Enter")
    wait_for(page, "document.querySelectorAll('#changed li').length === 1")
    after = page.evaluate("studio.changes[0].weights")
    rest = 1 - before[2]
    expected = [0.5 if key == 2 else weight * 0.5 / rest for key, weight in enumerate(before)]
    assert after == pytest.approx(expected, abs=1e-6)
    assert "row 5 set by hand, its sum 1" in page.inner_text("#changed li")
    wait_for(page, "document.querySelector('#answer-title').textContent.includes('with the changes')")
    assert page.get_attribute("#weigh-value", "placeholder") == "0.5"
    page.select_option("#weigh-rest", "keep")
    page.fill("#weigh-value", "0.1")
    page.click("#weigh-set")
    wait_for(page, "document.querySelector('#changed li').textContent.includes('its sum 0.6')")
    assert page.locator("#changed li").count() == 1  # the same row
    expected[2] = 0.1
    assert page.evaluate("studio.changes[0].weights") == pytest.approx(expected, abs=1e-6)
    page.evaluate("studio.settled()")
    bars = page.inner_text("#answer-bars")
    wait_for(page, "location.hash.includes('%22weights%22') && location.hash.includes('0.1')")
    again = opened(page.url)
    wait_for(again, "document.querySelectorAll('#changed li').length === 1")
    assert again.inner_text("#answer-bars") == bars
    again.click("#changed button")
    wait_for(again, "!document.querySelector('#answer-title').textContent.includes('with the changes')")
    assert again.locator("#changed li").count() == 0


DROP = """([bytes, name, type]) => {
  const carried = new DataTransfer();
  carried.items.add(new File([new Uint8Array(bytes)], name, { type }));
  document.body.dispatchEvent(new DragEvent("drop", { dataTransfer: carried, bubbles: true, cancelable: true }));
}"""


def test_a_file_dropped_on_a_model_of_texts_is_read_or_refused(opened, studio):
    page = opened(studio)
    page.evaluate(DROP, [list(b"a cat sat\n"), "cat.txt", "text/plain"])
    wait_for(page, f"{TOKENS} === 10")
    assert page.input_value("#reads") == "a cat sat"
    page.evaluate(DROP, [list(png()), "a.png", "image/png"])
    wait_for(page, "document.querySelector('#problem').textContent.startsWith('a.png is no text in UTF-8')")
    assert page.input_value("#reads") == "a cat sat"


def test_maps_that_are_compared_have_their_own_colours_and_hatched_later_tokens(opened, studio):
    page = opened(studio)
    typed(page)
    page.click("#compare summary")
    wait_for(page, "document.querySelectorAll('#compared canvas').length === 3")
    pixels = """(number) => {
      const canvas = document.querySelectorAll("#compared canvas")[number];
      const { width, height } = canvas, { data } = canvas.getContext("2d").getImageData(width - 40, 0, 40, height);
      return new Set(new Uint32Array(data.buffer)).size;
    }"""
    assert (
        page.evaluate(pixels, 0) > 2
    )  # the last columns are later tokens for nearly all queries: strokes, not one colour
    figure = "document.querySelector('#compared canvas').toDataURL()"
    page.fill("#other-text", "a")
    wait_for(page, "document.querySelectorAll('#compared canvas').length === 2")
    own = page.evaluate(figure)
    page.select_option("#other-scale", "one")
    wait_for(page, f"{figure} !== {own!r}")


def test_vectors_of_another_text_are_put_in(opened, studio):
    page = opened(studio)
    typed(page)
    page.click("#patching summary")
    page.fill("#patch-text", "the mat")
    page.fill("#patch-address", "layers.1")
    page.fill("#patch-positions", "4, 5")
    page.fill("#patch-from", "2 3")
    page.click("#patch button")
    wait_for(page, "document.querySelector('#answer-title').textContent.includes('with the changes')")
    assert page.inner_text("#changed li").startswith("layers.1 at 4,5 from “the mat” at 2,3")
    page.fill("#patch-positions", "4, five")
    page.click("#patch button")
    wait_for(page, "document.querySelector('#problem').textContent.startsWith('for tokens: “five” is no number')")
    assert page.locator("#changed li").count() == 1
    page.fill("#patch-positions", "99")
    page.fill("#patch-from", "")
    page.click("#patch button")
    wait_for(page, "document.querySelector('#problem').textContent.includes('99')")
    page.click("#changed li >> nth=1 >> button")  # what the model refuses stands there to be undone
    wait_for(page, "document.querySelector('#problem').hidden")


def test_heads_are_ranked_by_what_the_answer_loses_and_choosing_one_shows_it(opened, studio):
    page = opened(studio)
    typed(page)
    page.focus("#effects summary")
    page.keyboard.press("Enter")
    page.focus("#effects-start")
    page.keyboard.press("Enter")
    wait_for(page, "document.querySelector('#effects-note').textContent === '12 heads'")
    moved = [float(text) for text in page.locator("#effects-table tbody td:nth-child(3)").all_inner_texts()]
    assert [abs(each) for each in moved] == sorted(map(abs, moved), reverse=True)
    name = page.inner_text("#effects-table tbody button >> nth=0")
    page.click("#effects-table tbody button >> nth=0")
    wait_for(page, f"`${{regard.state.map.name}}, head ${{regard.state.head}}` === {name!r}")
    assert page.inner_text("#switch-off") == f"switch off: {name}"
    assert page.inner_text("#effects-caption").endswith(" with all heads")
    page.fill("#reads", "a cat")
    wait_for(page, "document.querySelector('#effects-table').hidden")


def test_ranking_heads_can_be_cancelled(opened, studio):
    page = opened(studio)
    page.route("**/studio/effects", lambda route: None)  # a layer that takes for ever
    page.click("#effects summary")
    page.click("#effects-start")
    page.wait_for_selector("#effects-progress:not([hidden])")
    page.click("#effects-start")
    wait_for(page, "document.querySelector('#effects-progress').hidden")
    assert page.inner_text("#effects-start") == "switch each head off in turn"


def test_the_changed_model_stands_beside_the_one_without_changes(opened, studio):
    page = opened(studio)
    typed(page)
    page.select_option("#address", "layers.0.attention")
    page.select_option("#head", "0")
    page.click("#switch-off")
    page.click("#compare summary")
    wait_for(page, "document.querySelectorAll('#compared canvas').length === 3")
    assert "Largest difference 0. " in page.inner_text("#compare-note")  # its own map is from before it is switched off
    page.select_option("#address", "layers.2.attention")
    wait_for(page, "!document.querySelector('#compare-note').textContent.includes('difference 0. ')")
    page.focus("#compared canvas >> nth=2")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    read = page.inner_text("#compare-readout")
    values = [float(part.split()[-1]) for part in read.split("; ")]
    assert values[2] == pytest.approx(values[1] - values[0], abs=0.01)
    page.fill("#other-text", "a cat sat on")
    wait_for(page, "document.querySelector('#compare-note').textContent.includes('no difference of the two')")
    page.select_option("#other-model", "yesno")
    wait_for(page, "document.querySelectorAll('#other-bars tr').length === 3")


def test_an_image_is_chosen_and_pasted(opened, studio):
    page = opened(studio)
    page.select_option("#model", "sees")
    wait_for(page, "document.querySelector('#problem').textContent.includes('Drop an image')")
    page.set_input_files("#file", {"name": "a.txt", "mimeType": "text/plain", "buffer": b"a"})
    wait_for(page, "document.querySelector('#problem').textContent.includes('a.txt is no image')")
    page.set_input_files("#file", {"name": "a.png", "mimeType": "image/png", "buffer": png()})
    wait_for(page, "document.querySelectorAll('#answer-bars tr').length === 7")
    assert page.evaluate("regard.data.maps[0].key.patches !== null")
    before = page.inner_text("#answer-bars")
    page.evaluate(
        """bytes => {
          const data = new DataTransfer();
          data.items.add(new File([new Uint8Array(bytes)], "b.png", { type: "image/png" }));
          dispatchEvent(new ClipboardEvent("paste", { clipboardData: data }));
        }""",
        list(png(20, 5)),
    )
    wait_for(page, f"document.querySelector('#answer-bars').innerText !== {before!r}")
    assert page.inner_text("#file-name") == "b.png"


def test_a_language_is_chosen_and_the_link_holds_it(opened, studio):
    page = opened(studio)
    assert page.is_hidden("#language-label")
    page.select_option("#model", "many")
    page.fill("#reads", "abc def")
    wait_for(page, "studio.seen?.wanted.language === 'german' && studio.seen.wanted.text === 'abc def'")
    read = "regard.data.maps[0].key.tokens"
    assert "<2german>" in page.evaluate(read)
    page.select_option("#language", "french")
    wait_for(page, f"{read}.includes('<2french>')")
    assert page.is_hidden("#top-label")
    wait_for(page, "location.hash.includes('language=french')")
    again = opened(page.url)
    assert again.input_value("#language") == "french"
    assert "<2french>" in again.evaluate(read)
    again.click("#compare summary")
    again.select_option("#other-model", "pair")  # which has no language
    wait_for(again, "document.querySelectorAll('#compared canvas').length > 1")


def test_as_many_candidates_are_listed_as_are_asked_for(opened, studio):
    page = opened(studio)
    typed(page)
    page.fill("#top", "3")
    page.press("#top", "Enter")
    wait_for(page, "document.querySelectorAll('#answer-bars tr').length === 3")
    page.click("#playback-title")
    page.fill("#tokens", "4")
    page.click("#write")
    page.wait_for_selector("#step-bars .chosen")
    assert page.locator("#step-bars tr").count() == 3
    wait_for(page, "location.hash.includes('top=3') && location.hash.includes('write=')")
    again = opened(page.url)
    wait_for(again, "document.querySelectorAll('#step-bars tr').length === 3")
    again.fill("#top", "400")
    again.press("#top", "Enter")
    wait_for(again, "document.querySelectorAll('#answer-bars tr').length === 10")
    assert again.input_value("#top") == "10"


def test_two_checkpoints_stand_side_by_side_and_a_link_holds_them(opened, studio):
    page = opened(studio)
    typed(page)
    page.click("#compare summary")
    wait_for(page, "document.querySelectorAll('#compared canvas').length === 3")
    assert page.inner_text("#compare-note").startswith("Largest difference 0.")  # of a model to itself
    page.select_option("#other-model", "lm@last")
    wait_for(page, "/Largest difference [0.]*[1-9]/.test(document.querySelector('#compare-note').textContent)")
    bars = page.inner_text("#other-bars")
    assert "was" in bars
    page.select_option("#other-scale", "one")
    wait_for(page, "location.hash.includes('compare=') && location.hash.includes('one')")
    again = opened(page.url)
    wait_for(again, "document.querySelectorAll('#compared canvas').length === 3")
    assert (again.input_value("#other-model"), again.input_value("#other-scale")) == ("lm@last", "one")
    wait_for(again, "document.querySelectorAll('#other-bars tr').length === 10")
    assert again.inner_text("#other-bars") == bars


def test_a_beam_is_drawn_with_what_it_dropped(opened, studio):
    page = opened(studio)
    assert not page.is_visible("#beam")
    page.select_option("#model", "pair")
    page.fill("#reads", "abc def")
    page.wait_for_selector("#beam:not([hidden])")
    page.focus("#beam summary")
    page.keyboard.press("Enter")
    wait_for(page, "document.querySelectorAll('#tree svg text').length > 8")
    assert page.locator("#tree text[text-decoration=line-through]").count() > 0
    dropped = page.evaluate("document.querySelectorAll('#tree text').length")
    page.fill("#beam-width", "2")
    page.press("#beam-width", "Tab")
    wait_for(page, f"document.querySelectorAll('#tree text').length < {dropped}")
    assert page.locator("#hypotheses tbody tr").count() >= 1
