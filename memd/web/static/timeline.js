// Drag over the calendar to search in a span of days.

const calendar = document.querySelector("[data-calendar]");
let first;

const dayOf = (event) => event.target.closest?.("[data-day]")?.dataset.day;

function paint(last) {
  const [from, to] = [first, last].sort();
  calendar.querySelectorAll("[data-day]").forEach((cell) => {
    cell.classList.toggle("picked", Boolean(first) && cell.dataset.day >= from && cell.dataset.day <= to);
  });
}

calendar?.addEventListener("pointerdown", (event) => { first = dayOf(event); });
calendar?.addEventListener("dragstart", (event) => event.preventDefault());
calendar?.addEventListener("pointermove", (event) => {
  if (first && dayOf(event)) paint(dayOf(event));
});
calendar?.addEventListener("click", (event) => {
  const last = dayOf(event);
  if (first && last && last !== first) event.preventDefault();
}, true);
addEventListener("pointerup", (event) => {
  const last = dayOf(event);
  if (first && last && last !== first) {
    const [since, until] = [first, last].sort();
    const values = new URLSearchParams({ since, until });
    if (calendar.dataset.ns) values.set("ns", calendar.dataset.ns);
    location.assign(`/?${values}`);
  }
  first = undefined;
});
// A phone shows half of it: the half with the last notes.
([...(calendar?.querySelectorAll("a") ?? [])].at(-1) ?? calendar)?.scrollIntoView({ block: "nearest", inline: "end" });
