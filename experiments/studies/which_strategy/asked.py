"""Plans, asked once: answers lie in a folder, so that a study that was cut goes on where it was."""
import hashlib
import json
import pathlib
import tempfile

from common import progress

NONE_FITS, BUDGET_ENDED = 3, 1
KEPT = ("legal", "do_not_fit", "slower", "open", "simulated", "proven", "least_seconds", "closest", "failed")


class Plans:
    def __init__(self, twofold, folder, budget, gap):
        self.twofold, self.folder, self.budget, self.gap = twofold, pathlib.Path(folder), budget, gap
        self.kept = 0

    def ask(self, spec, gpus):
        """What `twofold plan` says of a spec. An answer that is kept holds if it was complete, or had as much time."""
        key = hashlib.sha256(f"{spec}{gpus} {self.gap}".encode()).hexdigest()[:24]
        path = self.folder / f"{key}.json"
        if path.exists():
            answer = json.loads(path.read_text())
            if answer["proven"] or answer["budget"] >= self.budget:
                self.kept += 1
                return answer
        answer = {**self._plan(spec, gpus, self.folder / key), "budget": self.budget}
        self.folder.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(answer))
        return answer

    def _plan(self, spec, gpus, journal):
        with tempfile.NamedTemporaryFile("w", suffix=".textproto") as file:
            file.write(spec)
            file.flush()
            done = self.twofold("plan", file.name, f"--ranks={gpus}", f"--budget={self.budget:g}s", f"--gap={self.gap}", "--top=3", "--json", f"--out={journal}",
                                statuses=(0, BUDGET_ENDED, NONE_FITS))
        if not done.output.strip().startswith("{"):
            progress(done.messages.strip())
            raise SystemExit(f"`twofold plan` ended with status {done.status} and without an answer to:\n{spec}")
        document = json.loads(done.output)
        return {**{key: document.get(key) for key in KEPT}, "status": done.status, "layouts": document["layouts"][:1], "core_seconds": done.core_seconds}
