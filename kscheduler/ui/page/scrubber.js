// A slider over the frames of a run, with a button that plays them, slower or faster.

import { el } from "./dom.js";
import { moment } from "./format.js";

const FRAME_MS = 150;
const SPEEDS = [0.5, 1, 2, 4, 8];
let speed = 1; // kept from view to view

// times: of the frames; show(frame): called for each change. The element has `set(frame)` and `step(by)`.
export function scrubber(times, frame, total, show) {
  const text = el("output", { className: "moment" });
  const slider = el("input", { type: "range", min: 0, max: times.length - 1, value: frame, "aria-label": "Virtual time", oninput: () => { stop(); set(Number(slider.value)); } });
  const button = el("button", { type: "button", className: "button", onclick: () => (timer ? stop() : play()) }, "Play");
  let timer = null, now = frame;

  function set(to) {
    now = Math.max(0, Math.min(times.length - 1, to));
    slider.value = now;
    text.textContent = moment(times[now], total);
    slider.setAttribute("aria-valuetext", text.textContent);
    show(now);
  }
  function play() {
    if (now === times.length - 1) now = -1;
    button.textContent = "Pause";
    go();
  }
  function go() {
    clearInterval(timer);
    timer = setInterval(() => {
      if (!element.isConnected) return stop();
      set(now + 1);
      if (now === times.length - 1) stop();
    }, FRAME_MS / speed);
  }
  function stop() {
    clearInterval(timer);
    timer = null;
    button.textContent = "Play";
  }
  const speeds = el("select", { "aria-label": "Speed", onchange: () => { speed = Number(speeds.value); if (timer) go(); } },
    SPEEDS.map((each) => el("option", { value: each, selected: each === speed }, `${each}×`)));
  const element = el("div", { className: "scrubber" }, button, speeds, slider, text);
  element.set = (to) => { stop(); set(to); };
  element.step = (by) => { stop(); set(now + by); };
  element.toggle = () => button.click();
  set(frame);
  return element;
}
