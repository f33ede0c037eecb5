/**
 * Runs in the browser: writes times in the reader's zone and updates ages between two refreshes. `now` is the server's
 * clock; without scripts the page shows UTC.
 */
const LOCAL_TIMES = `
  const two = (n) => String(n).padStart(2, '0');
  const span = (seconds) => {
    const s = Math.max(0, Math.round(seconds)), m = Math.floor(s / 60), h = Math.floor(s / 3600), d = Math.floor(s / 86400);
    if (d > 0) return d + 'd ' + two(h % 24) + 'h';
    if (h > 0) return h + 'h ' + two(m % 60) + 'm';
    return m > 0 ? m + 'm ' + two(s % 60) + 's' : s + 's';
  };
  const clockOf = (t) => two(t.getHours()) + ':' + two(t.getMinutes());
  const dayOf = (t) => t.getFullYear() + '-' + two(t.getMonth() + 1) + '-' + two(t.getDate());
  const whole = (t) => dayOf(t) + ' ' + clockOf(t) + ':' + two(t.getSeconds());
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const zoneAt = (t) => { const m = -t.getTimezoneOffset(); return m === 0 ? 'UTC' : 'UTC' + (m < 0 ? '-' : '+') + Math.floor(Math.abs(m) / 60) + (m % 60 ? ':' + two(Math.abs(m) % 60) : ''); };
  let served = 0, servedAt = 0;
  const began = (iso) => { served = Date.parse(iso); servedAt = performance.now(); };
  const now = () => served + performance.now() - servedAt;
  const forms = {
    ago: (t, at) => at - t < 1500 ? 'just now' : span((at - t) / 1000) + ' ago',
    in: (t, at) => t - at < 1000 ? 'now' : 'in ' + span((t - at) / 1000),
    for: (t, at) => span((at - t) / 1000),
    moment: (t, at) => dayOf(t) === dayOf(new Date(at)) ? whole(t).slice(11) : whole(t),
    zoned: (t) => whole(t) + ' ' + zoneAt(t),
  };
  const put = (e, text) => { if (e.textContent !== text) e.textContent = text; };
  const writeTimes = (root) => {
    const at = now();
    for (const e of root.querySelectorAll('time[datetime]')) {
      const t = new Date(e.dateTime), form = forms[e.dataset.as];
      if (form) put(e, form(t, at));
      if (e.title) { const title = whole(t) + ' ' + zoneAt(t); if (e.title !== title) e.title = title; }
    }
    for (const e of root.querySelectorAll('[data-at]')) {
      const t = new Date(Number(e.dataset.at)), text = e.textContent;
      put(e, /^\\d\\d:\\d\\d/.test(text) ? clockOf(t) + text.slice(5) : /^\\d{4}-/.test(text) ? whole(t).slice(0, 16) + text.slice(16) : text);
    }
    const said = byId('zone');
    if (said !== null) put(said, 'all times in ' + (zone || 'your zone'));
  };
`;

/** Seconds between two refreshes of a visible page. */
const REFRESH_SECONDS = 5;
/** Seconds between two refreshes without JavaScript, each of the whole page. */
export const RELOAD_SECONDS = 60;

/**
 * Runs in the browser. It fetches the page and replaces the parts that changed, so that scroll position, open folds and
 * focus stay. Forms and links that only change this page are followed in place. Only `main` is parsed, because this
 * page's policy forbids the rest. It waits while the tab is hidden, text is selected or the pointer is over buttons, and
 * reports a lost connection. Input is read from its form at once, because the form may be replaced before it is sent.
 */
export const REFRESH_SCRIPT = `(() => {
  'use strict';
  const every = ${REFRESH_SECONDS * 1_000};
  let wait = every, timer = 0, busy = false, typed = 0, turn = 0;
  const byId = (id) => document.getElementById(id);
  ${LOCAL_TIMES}
  const later = () => { clearTimeout(timer); if (!document.hidden) timer = setTimeout(look, wait); };
  const selecting = () => { const s = getSelection(); return (s !== null && !s.isCollapsed) || (matchMedia('(hover: hover)').matches && document.querySelector('.controls:hover') !== null); };
  const lost = (text) => { const at = byId('lost'); at.textContent = text; at.hidden = text === ''; document.body.classList.toggle('cut-off', text !== ''); };
  const reach = 'a[href],button,input,select,summary,[tabindex]';
  const keep = (old) => {
    const folded = new Map([...old.querySelectorAll('details[id]')].map((e) => [e.id, e.open]));
    const scrolled = [...old.querySelectorAll('.wide[id]')].map((e) => [e.id, e.scrollLeft]);
    const focused = old.contains(document.activeElement) ? document.activeElement : null;
    const id = focused === null ? '' : focused.id || focused.parentElement?.id || '';
    const nth = focused === null ? -1 : [...old.querySelectorAll(reach)].indexOf(focused);
    const text = focused?.matches('input') ? { value: focused.value, at: focused.selectionStart } : null;
    return (fresh) => {
      for (const [id, open] of folded) { const e = byId(id); if (e) e.open = open; }
      for (const [id, left] of scrolled) { const e = byId(id); if (e) e.scrollLeft = left; }
      if (focused === null) return;
      const named = id === '' ? null : byId(id);
      const e = named === null ? fresh.querySelectorAll(reach)[nth] : named.matches('details') ? named.querySelector('summary') : named;
      if (!e) return;
      e.focus({ preventScroll: true });
      if (text !== null && e.matches('input')) { e.value = text.value; e.setSelectionRange(text.at, text.at); }
    };
  };
  const exchange = (old, fresh) => {
    const restore = keep(old);
    const made = document.adoptNode(fresh);
    old.replaceWith(made);
    restore(made);
  };
  const settled = (main) => [...main.children].map((e) => e.outerHTML.replace(/(<time [^>]*>)[^<]*|(name="token" value=")[^"]*/g, '$1$2'));
  const showPage = (text, keepsTold) => {
    const [found] = /<main[^]*<\\/main>/.exec(text) || [''];
    const fresh = new DOMParser().parseFromString(found, 'text/html').querySelector('main');
    const main = document.querySelector('main');
    if (fresh === null) throw new Error('it sent no page of mine');
    const told = byId('told');
    if (keepsTold && told !== null && fresh.querySelector('#told') === null) fresh.querySelector('header').after(told.cloneNode(true));
    const { title, icon } = fresh.dataset;
    began(fresh.querySelector('#as-of').dateTime);
    const next = settled(fresh), olds = [...main.children], news = [...fresh.children];
    if (next.length !== sent.length) exchange(main, fresh);
    else for (const [at, html] of next.entries()) if (html !== sent[at]) exchange(olds[at], news[at]);
    sent = next;
    writeTimes(document);
    if (document.title !== title) document.title = title;
    document.querySelector('link[rel=icon]').href = icon;
  };
  const here = () => location.pathname + location.search;
  const ask = async (target, options) => {
    const answer = await fetch(target, { cache: 'no-store', signal: AbortSignal.timeout(20000), ...options });
    if (!answer.ok) throw new Error('it answers ' + answer.status);
    return answer;
  };
  const look = async () => {
    if (busy || document.hidden) return;
    if (selecting()) return later();
    busy = true;
    const mine = turn;
    try {
      const text = await (await ask(here())).text();
      if (mine === turn && !selecting()) showPage(text, true);
      lost('');
      wait = every;
    } catch (error) {
      const why = /^it /.test(error.message) ? error.message : 'no answer';
      lost('Connection lost (' + why + '). What is shown is as of ' + byId('as-of').textContent + '; trying again.');
      wait = Math.min(wait * 2, 30000);
    } finally {
      busy = false;
      later();
    }
  };
  const go = async (target, options, isForm) => {
    const mine = ++turn;
    try {
      const answer = await fetch(target, { cache: 'no-store', signal: AbortSignal.timeout(20000), ...options });
      const text = await answer.text();
      if (mine !== turn) return;
      if (!/html/.test(answer.headers.get('content-type'))) return lost(text);
      if (!isForm) history.replaceState(null, '', answer.url);
      showPage(text, false);
      lost('');
    } catch {
      lost('No answer: it is not known whether that was done.');
    }
  };
  const fieldsOf = (form, submitter) => new URLSearchParams(new FormData(form, submitter));
  const filled = (form, submitter) => form.action.split('?')[0] + '?' + fieldsOf(form, submitter);
  document.addEventListener('submit', (event) => {
    const { target: form, submitter } = event;
    event.preventDefault();
    if (form.method === 'post') return void go(form.action, { method: 'POST', body: fieldsOf(form, submitter) }, true);
    go(filled(form, submitter), {}, false);
  });
  document.addEventListener('click', (event) => {
    const link = event.target.closest('a[data-here]');
    if (link === null || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey) return;
    event.preventDefault();
    go(link.href, {}, false);
  });
  document.addEventListener('input', (event) => {
    const { form } = event.target;
    if (!form || form.method !== 'get') return;
    clearTimeout(typed);
    const target = filled(form, null);
    typed = setTimeout(() => go(target, {}, false), 200);
  });
  document.addEventListener('visibilitychange', () => { if (document.hidden) clearTimeout(timer); else look(); });
  let sent = settled(document.querySelector('main'));
  began(byId('as-of').dateTime);
  writeTimes(document);
  later();
})();
`;

/** Runs in the browser: shows the tables and columns that contain the search text. */
export const TABLES_SCRIPT = `(() => {
  'use strict';
  const field = document.getElementById('search');
  field.parentElement.hidden = false;
  field.addEventListener('input', () => {
    const wanted = field.value.trim().toLowerCase();
    const has = (e) => e.textContent.toLowerCase().includes(wanted);
    document.querySelector('main').classList.toggle('searching', wanted !== '');
    for (const table of document.querySelectorAll('details.found')) {
      const isNamed = has(table.querySelector('summary'));
      const rows = [...table.querySelectorAll('tbody tr')];
      for (const row of rows) row.hidden = !isNamed && !has(row);
      table.hidden = !isNamed && rows.every((row) => row.hidden);
      if (wanted !== '' && !isNamed) table.open = true;
    }
    for (const link of document.querySelectorAll('[id$="-tables"] tbody a'))
      link.closest('tr').hidden = document.getElementById(decodeURIComponent(link.hash.slice(1))).hidden;
  });
})();
`;
