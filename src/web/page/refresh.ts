/** Seconds between two looks of a page that is seen. */
const EVERY_SECONDS = 5;
/** Seconds between two looks without JavaScript, where each is a whole page. */
export const RELOAD_SECONDS = 60;

/**
 * Runs in the browser. Fetches the page anew and exchanges its content in place, so that the scroll position, what is
 * folded out and the focus stay. Only the main part is parsed: the rest would meet this page's own policy. It waits while the tab is hidden or text is selected, and says when it is cut off.
 */
export const REFRESH_SCRIPT = `(() => {
  'use strict';
  const every = ${EVERY_SECONDS * 1_000};
  let wait = every, timer = 0, busy = false;
  const byId = (id) => document.getElementById(id);
  const later = () => { clearTimeout(timer); if (!document.hidden) timer = setTimeout(look, wait); };
  const selecting = () => { const s = getSelection(); return s !== null && !s.isCollapsed; };
  const lost = (text) => { const at = byId('lost'); at.textContent = text; at.hidden = text === ''; document.body.classList.toggle('cut-off', text !== ''); };
  const keep = (main) => {
    const folded = new Map([...main.querySelectorAll('details[id]')].map((e) => [e.id, e.open]));
    const scrolled = [...main.querySelectorAll('.wide[id]')].map((e) => [e.id, e.scrollLeft]);
    const focus = document.activeElement === null ? '' : document.activeElement.id || document.activeElement.parentElement?.id || '';
    const inside = main.contains(document.activeElement);
    return () => {
      for (const [id, open] of folded) { const e = byId(id); if (e) e.open = open; }
      for (const [id, left] of scrolled) { const e = byId(id); if (e) e.scrollLeft = left; }
      const e = inside && focus ? byId(focus) : null;
      if (e) (e.matches('details') ? e.querySelector('summary') : e).focus({ preventScroll: true });
    };
  };
  const show = (text) => {
    const [part] = /<main[^]*<\\/main>/.exec(text) || [''];
    const fresh = new DOMParser().parseFromString(part, 'text/html').querySelector('main');
    const main = document.querySelector('main');
    if (fresh === null) throw new Error('it sent no status page');
    const restore = keep(main);
    main.replaceWith(document.adoptNode(fresh));
    restore();
    if (document.title !== fresh.dataset.title) document.title = fresh.dataset.title;
    document.querySelector('link[rel=icon]').href = fresh.dataset.icon;
  };
  const look = async () => {
    if (busy || document.hidden) return;
    if (selecting()) return later();
    busy = true;
    try {
      const answer = await fetch(location.pathname, { cache: 'no-store', signal: AbortSignal.timeout(20000) });
      if (!answer.ok) throw new Error('it answers ' + answer.status);
      const text = await answer.text();
      if (!selecting()) show(text);
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
  document.addEventListener('visibilitychange', () => { if (document.hidden) clearTimeout(timer); else look(); });
  later();
})();
`;
