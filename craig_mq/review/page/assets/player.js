// Inspection time: which snapshot is shown and how fast the next one comes. It knows nothing of the model.
"use strict";

window.craigReview.Player = class {
  static SECONDS_PER_TRANSITION = 3;

  constructor(show) {
    this.show = show; // called as show({announce}) after every change
    this.index = 0;
    this.last = 0;
    this.speed = 1;
    this.timer = null;
  }

  get playing() {
    return this.timer !== null;
  }

  get atEnd() {
    return this.index >= this.last;
  }

  // A new run of `last` transitions, shown at `index`; never starts playback.
  open(last, index) {
    this.#stop();
    this.last = last;
    this.index = index;
    this.show({ announce: true });
  }

  // Go to a snapshot and pause; `announce: false` while scrubbing.
  go(index, { announce = true } = {}) {
    this.#stop();
    this.index = Math.min(Math.max(index, 0), this.last);
    this.show({ announce });
  }

  pause() {
    this.#stop();
    this.show({ announce: false });
  }

  toggle() {
    if (this.playing) return this.pause();
    if (this.atEnd) return undefined;
    this.#schedule();
    return this.show({ announce: false });
  }

  pace(speed) {
    this.speed = speed;
    if (this.playing) this.#schedule();
  }

  #schedule() {
    this.#stop();
    this.timer = setTimeout(() => this.#advance(), (1000 * this.constructor.SECONDS_PER_TRANSITION) / this.speed);
  }

  #advance() {
    this.index += 1;
    this.timer = null;
    if (!this.atEnd) this.#schedule();
    this.show({ announce: true });
  }

  #stop() {
    clearTimeout(this.timer);
    this.timer = null;
  }
};
