// The script and the style of the status page.
#include <string_view>

#include "runtime/service/http/snapshot.h"

namespace batchflow::service {
namespace {

constexpr std::string_view kStyle = R"(:root {
  color-scheme: light dark;
  --line: #8884; --soft: #8883; --use: #3b7dd8; --warn: #c2410c;
  --storage: #d9822b; --preparation: #7c5cd6; --delivery: #1f9e89; --room: #d1477d;
  --records: #8a8f98;
}
body { font: 15px/1.45 system-ui, sans-serif; max-width: 76rem; margin: 2rem auto }
body { padding: 0 1rem }
h1 { font-size: 1.4rem; margin: 0 }
h2 { font-size: 1.05rem; margin: 1.8rem 0 .5rem }
p { margin: .2rem 0; opacity: .8 }
#told { color: var(--warn); font-weight: 600; opacity: 1 }
.tiles, .graphs { display: grid; gap: .8rem }
.tiles { grid-template-columns: repeat(auto-fit, minmax(10rem, 1fr)); margin-top: 1rem }
.graphs { grid-template-columns: repeat(auto-fit, minmax(17rem, 1fr)) }
.tile { border: 1px solid var(--line); border-radius: .5rem; padding: .7rem .9rem }
.tile b { display: block; font-size: 1.35rem; font-variant-numeric: tabular-nums }
.tile span { opacity: .7 }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums }
th, td { text-align: right; vertical-align: top; padding: .35rem .6rem }
tr { border-bottom: 1px solid var(--line) }
th { font-weight: 600; opacity: .7 }
th:first-child, td:first-child { text-align: left }
td { overflow-wrap: anywhere }
td small { display: block; opacity: .7 }
.bar { display: block; width: 100%; min-width: 7rem; height: .55rem; margin: .35rem 0 }
.bar { border-radius: .3rem; background: var(--soft) }
figure { margin: 0; border: 1px solid var(--line); border-radius: .5rem; padding: .7rem .9rem }
figcaption, .ends { opacity: .7; font-size: .9rem }
.graph { display: block; width: 100%; height: 6rem; background: var(--soft); margin: .4rem 0 }
.ends { display: flex; justify-content: space-between }
.legend span { white-space: nowrap; margin-left: .7rem }
.legend svg { width: .8rem; height: .8rem; border-radius: .2rem; vertical-align: -.05rem }
.pace, .use { fill: var(--use) }
.storage { fill: var(--storage) }
.preparation { fill: var(--preparation) }
.delivery { fill: var(--delivery) }
.room { fill: var(--room) }
.records { fill: var(--records) }
@media (max-width: 44rem) {
  thead { display: none }
  tr { display: block; padding: .5rem 0 }
  td, td:first-child { display: flex; gap: 1rem; text-align: right; padding: .1rem 0 }
  td::before { content: attr(data-column); opacity: .7; flex: none }
  td > div { flex: 1; min-width: 0 }
}
)";

constexpr std::string_view kScript = R"("use strict";
const everyMs = 2000;
const answerWithinMs = 10000;
const told = document.getElementById("told");
let isAsking = false;

// Takes over what differs. What stays the same stays in place, and with it what a reader has
// marked or scrolled.
function takeOver(shown, now) {
  if (shown.nodeName !== now.nodeName) {
    shown.replaceWith(document.importNode(now, true));
    return;
  }
  if (now.nodeType === Node.TEXT_NODE) {
    if (shown.nodeValue !== now.nodeValue) shown.nodeValue = now.nodeValue;
    return;
  }
  for (const {name, value} of now.attributes)
    if (shown.getAttribute(name) !== value) shown.setAttribute(name, value);
  while (shown.childNodes.length > now.childNodes.length) shown.lastChild.remove();
  [...now.childNodes].forEach((child, i) => {
    if (i < shown.childNodes.length) takeOver(shown.childNodes[i], child);
    else shown.append(document.importNode(child, true));
  });
}

async function ask() {
  if (isAsking || document.hidden) return;
  isAsking = true;
  try {
    const answer = await fetch(location.href, {
      cache: "no-store",
      signal: AbortSignal.timeout(answerWithinMs),
    });
    if (answer.status === 403) {
      told.textContent = await answer.text();
      return;
    }
    if (!answer.ok) throw new Error(`it answers ${answer.status}`);
    const now = new DOMParser().parseFromString(await answer.text(), "text/html");
    takeOver(document.querySelector("main"), now.querySelector("main"));
    told.textContent = "";
  } catch (error) {
    if (told.textContent === "")
      told.textContent = `The service has not answered since ${new Date().toLocaleTimeString()}. ` +
          "What is shown is from before.";
  } finally {
    isAsking = false;
  }
}

setInterval(ask, everyMs);
document.addEventListener("visibilitychange", ask);
)";

}  // namespace

std::string_view page_script() {
  return kScript;
}

std::string_view page_style() {
  return kStyle;
}

}  // namespace batchflow::service
