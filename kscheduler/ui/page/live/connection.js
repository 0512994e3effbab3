// Requests to the scheduler, with the token as a header: never in an address, never in a cookie.

const KEPT = "kscheduler-token", PAUSES_S = [1, 2, 5, 10];
const AGAIN = new Set([429, 500, 502, 503, 504]);
let token = kept();

function kept() {
  try {
    return sessionStorage.getItem(KEPT) || "";
  } catch {
    return "";
  }
}

// Kept for this tab only, until it is closed.
export function useToken(text) {
  token = text.trim();
  try {
    if (token) sessionStorage.setItem(KEPT, token);
    else sessionStorage.removeItem(KEPT);
  } catch { /* Without storage it lasts until the page is loaded again. */ }
}

export const hasToken = () => token !== "";

// An answer other than 200: its status, its message, and when to try again.
export class Refusal extends Error {
  constructor(status, message, retry_s) {
    super(message);
    Object.assign(this, { status, retry_s });
  }
}

async function request(path, signal) {
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  const response = await fetch(path, { headers, signal, cache: "no-store", credentials: "same-origin" });
  if (response.ok) return response;
  const answer = await response.json().catch(() => ({}));
  const words = answer.message || `The scheduler answered ${response.status}.`;
  throw new Refusal(response.status, words, Number(response.headers.get("Retry-After")) || 0);
}

export async function ask(path, parameters) {
  return (await request(`${path}?${new URLSearchParams(parameters)}`)).json();
}

// Watches a view. on(event, document): for each event; state(words): "" while connected, else what is being done;
// refused(Refusal): it ended, and only another token or right helps. Returns a function that ends it.
export function watch(view, { on, state, refused }) {
  const ending = new AbortController();
  let fails = 0;

  async function run() {
    while (!ending.signal.aborted) {
      let words = "The connection was lost", pause = 0;
      try {
        state(fails ? "Connecting again …" : "Connecting …");
        const response = await request(`api/stream?${new URLSearchParams({ view })}`, ending.signal);
        state("");
        const end = await read(response.body, (event, document) => { fails = 0; on(event, document); });
        if (end?.reason === "token") throw new Refusal(401, end.message, 0);
        if (end?.reason === "forbidden") throw new Refusal(403, end.message, 0);
        if (end) words = end.message;
      } catch (error) {
        if (ending.signal.aborted) return;
        if (error instanceof Refusal) {
          if (!AGAIN.has(error.status)) return refused(error);
          [words, pause] = [error.message, error.retry_s];
        }
      }
      pause = Math.max(pause, PAUSES_S[Math.min(fails++, PAUSES_S.length - 1)]);
      state(`${words.replace(/\.$/, "")}. Trying again in ${pause} s.`);
      await new Promise((done) => setTimeout(done, pause * 1000));
    }
  }

  run();
  return () => ending.abort();
}

// Reads server-sent events until the stream ends; returns the document of the event "end", if there was one.
async function read(body, on) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return null;
    text += value;
    let at;
    while ((at = text.indexOf("\n\n")) >= 0) {
      const found = /^event: (\w+)\ndata: ([^]*)$/.exec(text.slice(0, at));
      text = text.slice(at + 2);
      if (!found) continue; // a comment, which only shows that the other side is there
      const document = JSON.parse(found[2]);
      if (found[1] === "end") return document;
      on(found[1], document);
    }
  }
}
