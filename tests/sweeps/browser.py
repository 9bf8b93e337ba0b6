"""Opens a page in headless Chromium (Playwright) and does what it is told, as a program of its own.

python browser.py PAGE STEPS [dark]     PAGE: a file, or an address; STEPS: JSON list of [what, argument]
Prints a JSON list of what each step gave.

["size", [width, height]] · ["js", expression] · ["until", expression that becomes true] · ["hover", selector] ·
["click", selector] · ["tap", selector] · ["key", name] · ["picture", path] · ["pdf", path] ·
["choose", [selector, value]] · ["fill", [selector, text]] · ["files", [selector, path]] ·
["download", [selector of what starts it, path]] ·
["requests", null]: what was asked of anybody but the page itself.
The last entry is what the page complained about.
"""

import json
import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

SETTLE_MILLISECONDS = 250
PATIENCE_MILLISECONDS = 60_000
SYSTEM = ("chromium", "chromium-browser", "google-chrome")
"""Browsers of the system, which go before the one that `playwright install chromium` brings."""


class Browser:
    def __init__(self, playwright, path: str, scheme: str) -> None:
        program = next(filter(None, map(shutil.which, SYSTEM)), None)
        self.browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        context = self.browser.new_context(
            color_scheme=scheme, has_touch=True, viewport={"width": 1280, "height": 900}
        )
        self.page = context.new_page()
        self.complaints: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(path if path.startswith("http:") else Path(path).absolute().as_uri())
        self.settle()

    def settle(self) -> None:
        self.page.wait_for_timeout(SETTLE_MILLISECONDS)

    def size(self, size: list[int]) -> None:
        self.page.set_viewport_size({"width": size[0], "height": size[1]})
        self.settle()

    def js(self, expression: str):
        return self.page.evaluate(f"() => ({expression})")

    def until(self, expression: str) -> None:
        self.page.wait_for_function(f"() => Boolean({expression})", timeout=PATIENCE_MILLISECONDS)

    def hover(self, selector: str) -> None:
        self.page.hover(selector)
        self.settle()

    def click(self, selector: str) -> None:
        self.page.click(selector)
        self.settle()

    def tap(self, selector: str) -> None:
        self.page.tap(selector)
        self.settle()

    def fill(self, words: list[str]) -> None:
        self.page.fill(*words)
        self.settle()

    def files(self, words: list[str]) -> None:
        self.page.set_input_files(*words)
        self.settle()

    def choose(self, words: list[str]) -> None:
        self.page.select_option(*words)
        self.settle()

    def key(self, name: str) -> None:
        self.page.keyboard.press(name)
        self.settle()

    def picture(self, path: str) -> None:
        self.page.screenshot(path=path)

    def pdf(self, path: str) -> None:
        self.page.pdf(path=path, prefer_css_page_size=True)

    def download(self, words: list[str]) -> str:
        with self.page.expect_download() as download:
            self.page.click(words[0])
        download.value.save_as(words[1])
        return download.value.suggested_filename

    def requests(self, _: None) -> list[str]:
        return self.asked[1:]


def main() -> None:
    page, steps, *scheme = sys.argv[1:]
    with sync_playwright() as playwright:
        browser = Browser(playwright, page, "dark" if "dark" in scheme else "light")
        given = [getattr(browser, what)(argument) for what, argument in json.loads(steps)]
        print(json.dumps([*given, browser.complaints]), flush=True)
        browser.browser.close()


main()
