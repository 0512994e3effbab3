// A shell command that is shown, and copied by a button. The page itself runs nothing.

import { el } from "./dom.js";

export function shellCommand(label, text = "") {
  const shown = el("pre", { className: "command", tabindex: 0, role: "region", "aria-label": label });
  const status = el("span", { className: "fine", role: "status" });
  const button = el("button", { type: "button", className: "button", onclick: copy }, "Copy");
  async function copy() {
    try {
      await navigator.clipboard.writeText(shown.textContent);
      status.textContent = "Copied.";
    } catch { // A browser may refuse it to a page from a file.
      getSelection().selectAllChildren(shown);
      status.textContent = "Selected; copy it with Ctrl-C.";
    }
  }
  const element = el("div", {}, shown, el("div", { className: "copy" }, button, status));
  // Shows another command; "": there is none to copy.
  element.show = (command) => {
    shown.replaceChildren(...command.split(" ").flatMap((word, at) => [at ? " " : "", el("span", {}, word)])); // a line ends between words
    shown.hidden = button.hidden = !command;
    status.textContent = "";
  };
  element.show(text);
  return element;
}

// Whether a shell reads a text as plain and single-quoted words only. An address, which others may have composed, must not
// bring more into a command.
export const isQuoted = (text) => /^(?:[\w@%+=:,./ -]|'[^'\x00-\x1f\x7f]*'|\\')*$/.test(text);

const PLAIN = /^[\w@%+=:,./-]+$/;

// Words as a POSIX shell reads them.
export const shellWords = (words) => words.map((word) => (PLAIN.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`)).join(" ");
