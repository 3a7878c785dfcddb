// Search in pages that are opened from a folder. There a browser neither fetches the index nor starts a worker: a script holds the
// index, and a hidden frame runs the worker's script.
if (location.protocol === "file:") {
  document.write(`<script src="${__root}/search/search_index.js"></script>`);
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.inside = frame.contentWindow;
      this.inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", {data}));
      const script = frame.contentDocument.createElement("script");
      this.ready = new Promise((loaded) => script.addEventListener("load", loaded));
      script.src = address;
      frame.contentDocument.body.append(script);
    }
    postMessage(data) {
      this.ready.then(() => this.inside.dispatchEvent(new MessageEvent("message", {data})));
    }
  };
}
