"""Opens a page in headless Chromium (Qt WebEngine) and does what it is told, as a program of its own.

python browser.py PAGE STEPS [dark]     STEPS: JSON list of [what, argument]; prints a JSON list of what each gave

["size", [width, height]] · ["js", expression] · ["until", expression that becomes true] · ["hover", selector] ·
["click", selector] · ["key", name] · ["picture", path]. Mouse and keys are real events of the window. The last
entry is what the page complained about.
"""

import json
import os
import sys

os.environ["QT_QPA_PLATFORM"] = "offscreen"
os.environ["QTWEBENGINE_DISABLE_SANDBOX"] = "1"
DARK = " --blink-settings=preferredColorScheme=0" if "dark" in sys.argv[3:] else ""
os.environ["QTWEBENGINE_CHROMIUM_FLAGS"] = "--disable-gpu --no-sandbox" + DARK

from PySide6.QtCore import QEventLoop, QPoint, Qt, QTimer, QUrl
from PySide6.QtTest import QTest
from PySide6.QtWebEngineCore import QWebEnginePage
from PySide6.QtWebEngineWidgets import QWebEngineView
from PySide6.QtWidgets import QApplication

SETTLE_MILLISECONDS = 250
PATIENCE = 240  # so often is waited for what shall become true


class Page(QWebEnginePage):
    def __init__(self) -> None:
        super().__init__()
        self.complaints: list[str] = []

    def javaScriptConsoleMessage(self, level, message, line, source):  # noqa: N802, a name of Qt
        self.complaints.append(message)


def settle() -> None:
    QTest.qWait(SETTLE_MILLISECONDS)


class Browser:
    def __init__(self, path: str) -> None:
        self.view = QWebEngineView()
        self.page = Page()
        self.view.setPage(self.page)
        loop = QEventLoop()
        self.page.loadFinished.connect(loop.quit)
        self.view.load(QUrl.fromLocalFile(path))
        self.view.show()
        loop.exec()
        settle()

    def size(self, size: list[int]) -> None:
        self.view.resize(*size)
        settle()

    def js(self, expression: str):
        loop, found = QEventLoop(), []
        self.page.runJavaScript(
            f"JSON.stringify({expression})", lambda value: (found.append(value), loop.quit())
        )
        QTimer.singleShot(5000, loop.quit)
        loop.exec()
        return json.loads(found[0]) if found and found[0] else None

    def until(self, expression: str) -> None:
        for _ in range(PATIENCE):
            settle()
            if self.js(f"Boolean({expression})"):
                return

    def place(self, selector: str) -> QPoint:
        self.js(f"document.querySelector({selector!r}).scrollIntoView({{block: 'center', inline: 'center'}})")
        settle()
        box = self.js(f"document.querySelector({selector!r}).getBoundingClientRect()")
        return QPoint(int(box["x"] + box["width"] / 2), int(box["y"] + box["height"] / 2))

    def hover(self, selector: str) -> None:
        QTest.mouseMove(self.view.focusProxy(), self.place(selector))
        settle()

    def click(self, selector: str) -> None:
        left = Qt.MouseButton.LeftButton
        QTest.mouseClick(self.view.focusProxy(), left, Qt.KeyboardModifier.NoModifier, self.place(selector))
        settle()

    def key(self, name: str) -> None:
        QTest.keyClick(self.view.focusProxy(), getattr(Qt.Key, f"Key_{name}"))
        settle()

    def picture(self, path: str) -> None:
        self.view.grab().save(path)


def main() -> None:
    application = QApplication([])
    browser = Browser(sys.argv[1])
    given = [getattr(browser, what)(argument) for what, argument in json.loads(sys.argv[2])]
    print(json.dumps([*given, browser.page.complaints]), flush=True)
    application.processEvents()
    os._exit(0)  # Chromium takes its time to end, and has nothing to save


main()
