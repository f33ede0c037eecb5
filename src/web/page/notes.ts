import { countText, NONE, agoText, countOf, momentText } from '../../observe/figures.ts';
import { markup, type Markup, time } from './markup.ts';
import type { SourceStatus } from '../../serve/status/snapshot.ts';

/** What a person may want to look into, a box each; boxes without anything in them are left out. */
export function sourceNotes(source: SourceStatus, now: number): Markup | null {
  const notes = [heldDeletes(source, now), rejects(source, now), schemaChanges(source, now)].filter(
    (note) => note !== null,
  );
  return notes.length === 0 ? null : markup`<div class="notes">${notes}</div>`;
}

function box(id: string, title: string, content: Markup, isOpen: boolean): Markup {
  return markup`<details id="${id}"${isOpen ? markup` open` : null}><summary><h4>${title}</h4></summary>${content}</details>`;
}

function heldDeletes({ source, resources }: SourceStatus, now: number): Markup | null {
  const held = resources.filter(({ suspects }) => suspects.held > 0);
  if (held.length === 0) return null;
  const rows = held.map(({ resource, rows, suspects: { held, held_since, held_why } }) => {
    const of = rows === null ? null : ` of ${countText(rows.live)} live rows`;
    const since = held_since === null ? null : markup`, since ${time(held_since, momentText(held_since, now))}`;
    const name = `--source ${source} ${resource}`;
    return markup`<li><b>${resource}</b>: ${countText(held)}${of}${since}${held_why && markup`<br><span class="hint">${held_why}</span>`}
<pre><code>content-sync deletes list ${name}
content-sync deletes confirm ${name}   # they are gone
content-sync deletes discard ${name}   # they are not</code></pre></li>`;
  });
  const total = held.reduce((sum, { suspects }) => sum + suspects.held, 0);
  return box(`${source}-held`, `Held deletes: ${countText(total)}`, markup`<ul>${rows}</ul>`, true);
}

function rejects({ source, resources }: SourceStatus, now: number): Markup | null {
  const rows = resources.flatMap(({ resource, rejects }) => rejects.map((reject) => ({ resource, ...reject })));
  if (rows.length === 0) return null;
  const total = rows.reduce((sum, { count }) => sum + count, 0);
  const table = markup`<div class="wide" id="${source}-rejects-table" tabindex="0" role="region" aria-label="Records of ${source} set aside"><table>
<thead><tr><th scope="col">Resource</th><th scope="col">Reason</th><th scope="col" class="number">Records</th><th scope="col">Last seen</th><th scope="col">For example</th></tr></thead>
<tbody>${rows.map(
    ({ resource, reason, count, last_seen_at, example }) =>
      markup`<tr><td>${resource}</td><td><code>${reason}</code></td><td class="number">${countText(count)}</td><td>${
        last_seen_at === null ? NONE : time(last_seen_at, agoText(last_seen_at, now))
      }</td><td class="text">${example}</td></tr>`,
  )}</tbody></table></div>`;
  return box(`${source}-rejects`, `Set aside: ${countOf(total, 'record')}`, table, true);
}

function schemaChanges({ source, schema_changes: changes }: SourceStatus, now: number): Markup | null {
  const [newest] = changes;
  if (newest === undefined) return null;
  const table = markup`<div class="wide" id="${source}-schema-table" tabindex="0" role="region" aria-label="Schema changes of ${source}"><table>
<thead><tr><th scope="col">When</th><th scope="col">Column</th><th scope="col">Change</th></tr></thead>
<tbody>${changes.map(
    ({ changed_at, table, column, from, to }) =>
      markup`<tr><td>${time(changed_at, momentText(changed_at, now))}</td><td><code>${table}.${column}</code></td><td>${
        from === null ? markup`new, <code>${to}</code>` : markup`<code>${from}</code> → <code>${to}</code>`
      }</td></tr>`,
  )}</tbody></table></div>`;
  const title = `Last schema changes, the newest ${agoText(newest.changed_at, now)}`;
  return box(`${source}-schema`, title, table, false);
}
