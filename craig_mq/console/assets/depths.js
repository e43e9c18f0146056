// Ready messages of the three queues: the count now, and the last hour as lines.
"use strict";

window.craigConsole.Depths = class {
  constructor() {
    this.samples = [];
  }

  get newest() {
    return this.samples.length ? this.samples[this.samples.length - 1][0] : 0;
  }

  show(document) {
    this.samples.push(...document.samples);
    this.samples = this.samples.slice(-720);
    this.#showNow(document.queues);
    this.#draw(document.queues);
    const { byId } = window.craigConsole;
    byId("depths-note").textContent = document.failure ? "Not counted: " + document.failure : "Ready messages and what this console holds; what other consumers hold does not show.";
  }

  #showNow(queues) {
    const { byId, el } = window.craigConsole;
    const last = this.samples[this.samples.length - 1] || [0];
    byId("depths-now").replaceChildren(
      ...queues.map((queue, index) =>
        el("div", { class: "series-" + index }, el("dt", {}, el("span", { class: "swatch", "aria-hidden": "true" }), queue),
          el("dd", {}, last[index + 1] === null || last[index + 1] === undefined ? "?" : String(last[index + 1])))),
    );
  }

  #draw(queues) {
    const { byId, svg } = window.craigConsole;
    const counts = this.samples.flatMap((sample) => sample.slice(1)).filter((count) => count !== null);
    const highest = Math.max(1, ...counts);
    const [first, last] = this.samples.length ? [this.samples[0][0], this.newest] : [0, 1];
    const x = (at) => 46 + ((at - first) / Math.max(1, last - first)) * 540;
    const y = (count) => 165 - (count / highest) * 145;
    const minutes = Math.max(1, Math.round((last - first) / 60));
    const title = svg("title", { id: "depths-name" },
      `Messages over the last ${minutes} min, at most ${highest}: ` + queues.map((queue, index) => `${queue} ${this.#words(index)}`).join("; "));
    const lines = queues.flatMap((_, index) => this.#segments(index).map((points) =>
      svg("polyline", { class: `series series-${index}`, points: points.map(([at, count]) => `${x(at).toFixed(1)},${y(count).toFixed(1)}`).join(" ") })));
    byId("depths-chart").replaceChildren(
      title,
      svg("line", { class: "axis", x1: 46, x2: 586, y1: 165, y2: 165 }),
      svg("line", { class: "axis", x1: 46, x2: 586, y1: 20, y2: 20 }),
      svg("text", { class: "axis-text", x: 40, y: 24, "text-anchor": "end" }, String(highest)),
      svg("text", { class: "axis-text", x: 40, y: 169, "text-anchor": "end" }, "0"),
      svg("text", { class: "axis-text", x: 46, y: 184 }, `${minutes} min ago`),
      svg("text", { class: "axis-text", x: 586, y: 184, "text-anchor": "end" }, "now"),
      ...lines,
    );
  }

  #words(index) {
    const known = this.samples.map((sample) => sample[index + 1]).filter((count) => count !== null);
    return known.length ? `from ${known[0]} to ${known[known.length - 1]}` : "unknown";
  }

  // A gap where a count is missing; one lone count becomes a short line, so that it shows.
  #segments(index) {
    const found = [[]];
    for (const sample of this.samples) {
      if (sample[index + 1] === null) found.push([]);
      else found[found.length - 1].push([sample[0], sample[index + 1]]);
    }
    return found.filter((points) => points.length).map((points) => (points.length > 1 ? points : [points[0], [points[0][0] + 0.5, points[0][1]]]));
  }
};
