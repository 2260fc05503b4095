// What the server says about this page, and what can be done to it. Views listen and draw.

import { about, ask, busy, post, say } from "./dom.js";

export const state = { images: [], source: "", targets: ["", ""], points: [], selected: 0, heat: ["", ""], undo: 0 };
const views = new Set();

export function watch(view) {
  views.add(view);
  view();
  return () => views.delete(view);
}

export function draw() {
  for (const view of views) view();
  document.dispatchEvent(new CustomEvent("geco:drawn"));
}

function take(answer) {
  if (answer) Object.assign(state, answer);
  draw();
  return Boolean(answer);
}

export async function act(what, values = {}) {
  await moves.settled(); // whatever is done next comes after the moves of a point
  return take(await post("act", { do: what, ...values }));
}

export const known = (identity) => state.images.find((entry) => entry.id === identity);

export async function upload(file, slot) {
  if (file.size > about.megabytes * 1e6) {
    say(`${file.name} has ${(file.size / 1e6).toFixed(0)} MB, above the limit of ${about.megabytes} MB; save it smaller`);
    return false;
  }
  const headers = { "X-Geco-Name": encodeURIComponent(file.name || "pasted picture"), "X-Geco-Slot": String(slot ?? "") };
  return take(await ask("upload", { method: "POST", body: file, headers }));
}

export async function uploadAll(files, slot) {
  for (const file of files) {
    if (!(await upload(file, slot))) return;
    slot = undefined; // only the first goes where it was dropped
  }
}

// While a point is dragged, or an arrow key held down, only its last place matters: `send` gets it, and what to ask
// whether there is a later one by now.
export function follower(send) {
  let pending = null;
  let moving = false;
  let moves = Promise.resolve();

  async function follow() {
    moving = true;
    busy(1);
    while (pending) {
      const next = pending;
      pending = null;
      await send(next, () => pending);
    }
    moving = false;
    busy(-1);
  }

  function go(next) {
    pending = next;
    if (!moving) moves = follow();
  }

  return { go, settled: () => moves };
}

const moves = follower(async (next, later) => {
  const answer = await post("act", { do: "move", ...next });
  const newer = later();
  // The point is further on already: its place is kept, what was found is drawn.
  const mine = newer && answer?.points.find((other) => other.number === newer.number);
  if (mine) Object.assign(mine, { x: newer.x, y: newer.y });
  take(answer);
});

// What an editable image of the board shows, and what can be done to it.
export const board = {
  image: () => state.source,
  points: () => state.points,
  selected: () => state.selected,
  add: (x, y) => act("add", { x, y }),
  move(point, x, y) {
    Object.assign(point, { x, y });
    moves.go({ number: point.number, x, y, nudge: true });
  },
  select: (number) => act("select", { number }),
  remove: (number) => act("delete", { number }),
  undo: () => act("undo"),
};

// The images of a folder, as many as there is room for; what is refused does not stop the others.
export async function uploadFolder(files) {
  const kinds = files.filter((file) => file.type.startsWith("image/") && !file.name.startsWith("."));
  kinds.sort((a, b) => (a.webkitRelativePath || a.name).localeCompare(b.webkitRelativePath || b.name, "en", { numeric: true }));
  const room = about.images - state.images.length;
  const refused = [];
  for (const file of kinds.slice(0, room)) {
    if (!(await upload(file))) refused.push(file.name);
  }
  const lines = [];
  if (!kinds.length) lines.push("there is no image in this folder");
  if (refused.length) lines.push(`${refused.length} could not be taken, such as ${refused[0]}`);
  if (kinds.length > room) lines.push(`only ${room} of ${kinds.length} fit: the limit is ${about.images} images`);
  if (lines.length) say(lines.join("; "));
}

// `refresh` is called when the element is seen and the images or points have changed since.
export function whenSeen(element, key, refresh) {
  let seen = false;
  let drawn = null;
  const update = () => {
    const now = key();
    if (!seen || now === drawn || !element.isConnected) return;
    drawn = now;
    refresh();
  };
  new IntersectionObserver((entries) => {
    seen = entries.at(-1).isIntersecting;
    update();
  }).observe(element);
  watch(update);
  return () => {
    drawn = null;
    update();
  };
}
