"""A headless Chromium, driven by WebDriver (W3C) through chromedriver: pages are opened from files, as their readers do."""
import json
import os
import pathlib
import shutil
import subprocess
import time
import urllib.error
import urllib.request

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # by which the standard names an element's id
ENTER = "\ue007"


class Browser:
    def __init__(self, width=1400, height=1000):
        if shutil.which("chromedriver") is None:
            raise RuntimeError("chromedriver is not installed: scripts/setup.sh installs chromium and chromium-driver")
        self.driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE, text=True)
        self.address = None
        for line in self.driver.stdout:  # it says which port it took
            if "started successfully on port" in line:
                self.address = f"http://127.0.0.1:{line.split('port')[1].strip(' .' + chr(10))}"
                break
        if self.address is None:
            raise RuntimeError("chromedriver did not start")
        arguments = ["--headless=new", "--disable-gpu", f"--window-size={width},{height}"] + (["--no-sandbox"] if os.geteuid() == 0 else [])
        options = {"goog:chromeOptions": {"args": arguments}, "goog:loggingPrefs": {"browser": "ALL"}}
        self.session = self.call("/session", {"capabilities": {"alwaysMatch": options}}, at="")["sessionId"]

    def call(self, path, body=None, method=None, at=None):
        at = f"/session/{self.session}" if at is None else at
        request = urllib.request.Request(self.address + at + path, None if body is None else json.dumps(body).encode(), {"Content-Type": "application/json"}, method=method)
        try:
            return json.load(urllib.request.urlopen(request, timeout=60))["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(json.load(error)["value"]["message"]) from None

    def close(self):
        self.call("", method="DELETE")
        self.driver.terminate()
        self.driver.stdout.close()
        self.driver.wait()

    def open(self, path):
        """Opens a file and waits until its scripts have drawn it. Returns the seconds that took."""
        begin = time.monotonic()
        self.call("/url", {"url": pathlib.Path(path).resolve().as_uri()})
        return self.wait("return document.body.dataset.ready") and time.monotonic() - begin

    def script(self, text, *arguments):
        return self.call("/execute/sync", {"script": text, "args": list(arguments)})

    def wait(self, text, seconds=30):
        """Runs a script, once a frame, until it returns something."""
        found = self.call("/execute/async", {"args": [seconds], "script": f"""
            const done = arguments[1], end = performance.now() + 1000 * arguments[0];
            const test = () => {{ {text} }};
            const look = () => {{ const found = test(); found || performance.now() > end ? done(found || null) : requestAnimationFrame(look); }};
            look();"""})
        if not found:
            raise AssertionError(f"not within {seconds} s: {text}")
        return found

    def find(self, css):
        return self.call("/element", {"using": "css selector", "value": css})[ELEMENT]

    def click(self, css):
        self.call(f"/element/{self.find(css)}/click", {})

    def type(self, css, text):
        self.call(f"/element/{self.find(css)}/value", {"text": text})

    def key(self, key):
        self.call("/actions", {"actions": [{"type": "key", "id": "keys", "actions": [{"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]}]})

    def point(self, x, y, click=False):
        """Moves the pointer to a place of the window; also clicks there."""
        actions = [{"type": "pointerMove", "x": round(x), "y": round(y)}]
        if click:
            actions += [{"type": "pointerDown", "button": 0}, {"type": "pointerUp", "button": 0}]
        self.call("/actions", {"actions": [{"type": "pointer", "id": "mouse", "actions": actions}]})

    def errors(self):
        """What the console has since the last call."""
        return [entry["message"] for entry in self.call("/se/log", {"type": "browser"})]

    def requests(self):
        """Addresses that the page asked for."""
        return self.script("return performance.getEntriesByType('resource').map((e) => e.name).filter((name) => !name.startsWith('data:'))")
