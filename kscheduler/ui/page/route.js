// The address of a view: #/nodes?resource=cpu&t=120. A link opens the same view with the same settings.

export function route() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  return { view: decodeSafely(path), settings: new URLSearchParams(query || "") };
}

function decodeSafely(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return "";
  }
}

export function address(view, settings = {}) {
  const kept = new URLSearchParams();
  const report = route().settings.get("report");
  if (report) kept.set("report", report);
  for (const [name, value] of Object.entries(settings)) if (value !== null && value !== "") kept.set(name, value);
  return `#/${view}${kept.size ? "?" + kept : ""}`;
}

// Writes a setting of the view into the address without opening the view again.
export function remember(name, value) {
  const { view, settings } = route();
  if (value === null || value === "") settings.delete(name);
  else settings.set(name, String(value));
  history.replaceState(null, "", `#/${view}${settings.size ? "?" + settings : ""}`);
}
