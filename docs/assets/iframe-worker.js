// Search on pages that are opened as files. Browsers allow no workers there, so the worker of the
// search runs in a hidden frame. mkdocs-material would load such a script from another site.
(function () {
  if (location.protocol !== "file:") return;

  class IFrameWorker extends EventTarget {
    constructor(url) {
      super();
      this.waiting = [];
      const address = new URL(url, document.baseURI).href;
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inside = this.frame.contentWindow;
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      inside.importScripts = (...scripts) =>
        scripts.reduce((before, each) => before.then(() => run(inside, each)), Promise.resolve());
      run(inside, address).then(
        () => {
          for (const data of this.waiting.splice(0)) this.deliver(data);
          this.waiting = null;
        },
        () => this.dispatchEvent(new ErrorEvent("error", { message: `cannot load ${address}` })),
      );
    }

    postMessage(data) {
      if (this.waiting) this.waiting.push(data);
      else this.deliver(data);
    }

    deliver(data) {
      const inside = this.frame.contentWindow;
      inside.dispatchEvent(new inside.MessageEvent("message", { data }));
    }

    terminate() {
      this.frame.remove();
    }
  }

  function run(inside, address) {
    return new Promise((done, failed) => {
      const script = inside.document.createElement("script");
      script.src = address;
      script.onload = done;
      script.onerror = failed;
      inside.document.body.append(script);
    });
  }

  window.IFrameWorker = window.Worker = IFrameWorker; // the search asks whether it is in a frame
})();
