// Draws memories and their links: nodes push each other away, links pull, and groups have a colour each.

const canvas = document.querySelector("[data-graph]");
const label = document.querySelector("[data-graph-label]");
const usual = label?.textContent;
const dark = matchMedia("(prefers-color-scheme: dark)");
const HUES = [165, 28, 262, 205, 340, 95, 48, 300];
const ROW = 1e6;

function start({ nodes, edges }) {
  const points = nodes.map((node, at) => ({
    ...node, x: Math.cos(at * 2.4) * 18 * Math.sqrt(at + 1), y: Math.sin(at * 2.4) * 18 * Math.sqrt(at + 1), dx: 0, dy: 0, degree: 0,
  }));
  const links = edges.map((edge) => ({ ...edge, a: points[edge.from], b: points[edge.to] }));
  for (const link of links) {
    link.a.degree += 1;
    link.b.degree += 1;
  }
  colour(points, links);
  const view = { x: 0, y: 0, scale: 1, moved: false };
  const steps = points.length > 1000 ? 120 : 300;
  let step = 0;
  let over = null;
  const tick = () => {
    const until = performance.now() + 12;
    while (step < steps && performance.now() < until) settle(points, links, 1 - step++ / steps);
    if (!view.moved) fit(points, view);
    draw(points, links, view, over);
    if (step < steps) requestAnimationFrame(tick);
    else canvas.dataset.settled = "yes";
  };
  const again = () => (step < steps ? undefined : requestAnimationFrame(() => draw(points, links, view, over)));
  follow(points, view, again, (found) => {
    over = found;
    label.textContent = found ? `${found.ns} › ${found.title}` : usual;
    again();
  });
  dark.addEventListener("change", again);
  new ResizeObserver(again).observe(canvas);
  tick();
}

// Everything that links lead to belongs to one group; a large one is told apart by its strongest links.
function colour(points, links) {
  points.forEach((point, at) => { point.group = at; });
  const ordered = [...links].sort((one, other) => other.weight - one.weight);
  for (let round = 0; round < 8; round++) {
    for (const { a, b } of ordered) {
      if (a.degree >= b.degree) b.group = a.group;
      else a.group = b.group;
    }
  }
  const sizes = new Map();
  for (const { group } of points) sizes.set(group, (sizes.get(group) ?? 0) + 1);
  const ranked = [...sizes].sort((one, other) => other[1] - one[1]).map(([group]) => group);
  const hue = new Map(ranked.map((group, at) => [group, HUES[at % HUES.length]]));
  for (const point of points) point.hue = hue.get(point.group);
}

// One step of the layout. Who is far apart is left alone: a grid finds the neighbours.
function settle(points, links, heat) {
  const reach = 90;
  // As wide as the picture is, and as high.
  const shape = Math.sqrt(canvas.clientHeight / canvas.clientWidth);
  // The more there are, the more room they need.
  const gravity = 0.012 * Math.min(1, 8 / Math.sqrt(points.length));
  const cells = new Map();
  for (const point of points) {
    const cell = Math.floor(point.x / reach) * ROW + Math.floor(point.y / reach);
    if (!cells.has(cell)) cells.set(cell, []);
    cells.get(cell).push(point);
    point.dx = -point.x * gravity * shape;
    point.dy = (-point.y * gravity) / shape;
  }
  for (const [cell, here] of cells) {
    for (const column of [-ROW, 0, ROW]) {
      for (const row of [-1, 0, 1]) push(here, cells.get(cell + column + row) ?? [], reach);
    }
  }
  for (const { a, b, weight } of links) {
    const [x, y] = [b.x - a.x, b.y - a.y];
    const far = Math.hypot(x, y) || 1;
    const pull = ((far - 34) / far) * 0.12 * weight;
    a.dx += x * pull;
    a.dy += y * pull;
    b.dx -= x * pull;
    b.dy -= y * pull;
  }
  for (const point of points) {
    const length = Math.hypot(point.dx, point.dy) || 1;
    const most = Math.min(length, 24 * heat + 0.5);
    point.x += (point.dx / length) * most;
    point.y += (point.dy / length) * most;
  }
}

function push(here, there, reach) {
  for (const one of here) {
    for (const other of there) {
      if (one === other) continue;
      const [x, y] = [one.x - other.x, one.y - other.y];
      const square = x * x + y * y || 0.01;
      if (square > reach * reach) continue;
      const force = 260 / square;
      one.dx += x * force;
      one.dy += y * force;
    }
  }
}

function fit(points, view) {
  const xs = points.map((point) => point.x);
  const ys = points.map((point) => point.y);
  const least = (all) => all.reduce((one, other) => Math.min(one, other), Infinity);
  const most = (all) => all.reduce((one, other) => Math.max(one, other), -Infinity);
  const [left, right, top, bottom] = [least(xs), most(xs), least(ys), most(ys)];
  view.x = (left + right) / 2;
  view.y = (top + bottom) / 2;
  view.scale = Math.min(canvas.clientWidth / (right - left + 60), canvas.clientHeight / (bottom - top + 60), 2.2);
}

function radius(point) {
  return 3 + Math.min(Math.sqrt(point.degree) * 1.3, 7);
}

function draw(points, links, view, over) {
  const ratio = devicePixelRatio || 1;
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  if (canvas.width !== width * ratio || canvas.height !== height * ratio) {
    canvas.width = width * ratio;
    canvas.height = height * ratio;
  }
  const pen = canvas.getContext("2d");
  const light = dark.matches ? 66 : 42;
  pen.setTransform(1, 0, 0, 1, 0, 0);
  pen.clearRect(0, 0, canvas.width, canvas.height);
  const scale = view.scale * ratio;
  pen.setTransform(scale, 0, 0, scale, canvas.width / 2 - view.x * scale, canvas.height / 2 - view.y * scale);
  pen.lineWidth = 1 / view.scale;
  for (const near of [false, true]) {
    pen.beginPath();
    for (const { a, b } of links) {
      if ((over === a || over === b) !== near) continue;
      pen.moveTo(a.x, a.y);
      pen.lineTo(b.x, b.y);
    }
    const strength = near ? 0.9 : 0.22;
    pen.strokeStyle = dark.matches ? `rgb(220 230 225 / ${strength})` : `rgb(40 60 52 / ${strength})`;
    pen.stroke();
  }
  const byHue = Map.groupBy ? Map.groupBy(points, (point) => point.hue) : new Map([[165, points]]);
  for (const [hue, some] of byHue) {
    pen.beginPath();
    for (const point of some) {
      pen.moveTo(point.x + radius(point), point.y);
      pen.arc(point.x, point.y, radius(point), 0, 7);
    }
    pen.fillStyle = `hsl(${hue} 42% ${light}%)`;
    pen.fill();
  }
  name(pen, points, view);
}

// Memories have their names beside them, those with most links first, as far as there is room.
function name(pen, points, view) {
  const size = 11 / view.scale;
  pen.font = `${size}px system-ui, sans-serif`;
  pen.fillStyle = dark.matches ? "#c9d2ce" : "#3c4743";
  const taken = [];
  const edge = view.x + canvas.clientWidth / 2 / view.scale;
  const ranked = [...points].sort((one, other) => other.degree - one.degree).slice(0, 300);
  for (const point of ranked) {
    const text = point.title.length > 28 ? `${point.title.slice(0, 27)}…` : point.title;
    const [width, gap] = [pen.measureText(text).width, radius(point) + 3 / view.scale];
    const left = point.x + gap + width > edge ? point.x - gap - width : point.x + gap;
    const box = [left, point.y - size / 2, left + width + size, point.y + size];
    if (taken.some((one) => box[0] < one[2] && one[0] < box[2] && box[1] < one[3] && one[1] < box[3])) continue;
    taken.push(box);
    pen.fillText(text, left, point.y + size / 3);
  }
}

function follow(points, view, again, hover) {
  let held = null;
  let dragged = false;
  const at = (event) => {
    const box = canvas.getBoundingClientRect();
    return [
      (event.clientX - box.left - canvas.clientWidth / 2) / view.scale + view.x,
      (event.clientY - box.top - canvas.clientHeight / 2) / view.scale + view.y,
    ];
  };
  const under = (event) => {
    const [x, y] = at(event);
    return points.find((point) => Math.hypot(point.x - x, point.y - y) < radius(point) + 4 / view.scale) ?? null;
  };
  canvas.addEventListener("pointerdown", (event) => {
    held = [event.clientX, event.clientY];
    dragged = false;
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!held) {
      hover(under(event));
      return;
    }
    const [x, y] = [event.clientX - held[0], event.clientY - held[1]];
    if (Math.hypot(x, y) > 3) dragged = true;
    if (!dragged) return;
    view.x -= x / view.scale;
    view.y -= y / view.scale;
    view.moved = true;
    held = [event.clientX, event.clientY];
    again();
  });
  canvas.addEventListener("pointerup", (event) => {
    const found = under(event);
    if (!dragged && found) location.assign(`/memory?${new URLSearchParams({ ns: found.ns, key: found.key })}`);
    held = null;
  });
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    view.scale = Math.min(Math.max(view.scale * Math.exp(-event.deltaY / 400), 0.05), 8);
    view.moved = true;
    again();
  }, { passive: false });
}

if (canvas) start(await (await fetch(canvas.dataset.graph)).json());
