// Elements, and requests to the server. Text is always set as text: names of files and points are never markup.

export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, text] of Object.entries(value)) element.style.setProperty(key, text);
    else if (name in element && typeof value !== "string") element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

export const number = (value) => (Math.abs(value) >= 100 ? value.toFixed(0) : value.toFixed(1));

const KEY = "X-Geco-Session";
export const about = { key: "", models: [], missing: "", examples: [], colours: [], parts: 3, megabytes: 20, images: 40 };
let queue = Promise.resolve();
let waiting = 0;

export function busy(change) {
  waiting += change;
  document.documentElement.toggleAttribute("data-geco-busy", waiting > 0);
}

export function say(text) {
  for (const line of document.querySelectorAll(".geco-message")) {
    line.textContent = text;
    line.hidden = !text;
  }
}

async function fetched(path, options = {}) {
  const headers = { [KEY]: about.key, ...options.headers };
  const response = await fetch(`geco/${path}`, { ...options, headers });
  if (response.ok) return response;
  let text = `the server answered ${response.status}; try again`;
  try {
    text = (await response.json()).error ?? text;
  } catch {
    // Not from our own routes: the number has to do.
  }
  throw new Error(text);
}

// Requests go out one after the other, so that answers come back in the order of the clicks. The answer is what `read`
// makes of the response, or null if the request was refused, which the page then says. `clears`: what was said before is
// settled with it.
export function ask(path, options, read = (response) => response.json(), clears = true) {
  const request = queue.then(async () => {
    busy(1);
    try {
      const answer = await read(await fetched(path, options));
      if (clears) say("");
      return answer;
    } catch (error) {
      say(error instanceof TypeError ? "the server cannot be reached; is geco app still running?" : error.message);
      return null;
    } finally {
      busy(-1);
    }
  });
  queue = request.catch(() => null);
  return request;
}

export const post = (path, values) => ask(path, { method: "POST", body: JSON.stringify(values) });

// A request without a click: a tab follows what changed elsewhere, and the line about that change stays.
export const look = (path, values) => ask(path, { method: "POST", body: JSON.stringify(values) }, undefined, false);

export async function open() {
  Object.assign(about, await ask("open", { method: "POST" }));
  addEventListener("pagehide", () => navigator.sendBeacon("geco/close", about.key));
}

const pictures = new Map(); // identity → address of the image in this browser's memory

export async function addressOf(identity) {
  if (!pictures.has(identity)) {
    const loading = fetched(`image/${identity}`).then(async (response) => URL.createObjectURL(await response.blob()));
    pictures.set(identity, loading);
  }
  return pictures.get(identity);
}

export async function download(kind) {
  const file = await ask(`download/${kind}`, {}, async (response) => ({
    name: /filename="([^"]+)"/.exec(response.headers.get("content-disposition"))?.[1] ?? `geco.${kind}`,
    content: await response.blob(),
  }));
  if (!file) return;
  const link = h("a", { href: URL.createObjectURL(file.content), download: file.name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
