import { LOCAL_TIMES } from './local-times.ts';

/** Seconds between two looks of a page that is seen. */
const EVERY_SECONDS = 5;
/** Seconds between two looks without JavaScript, where each is a whole page. */
export const RELOAD_SECONDS = 60;

/**
 * Runs in the browser. Asks for what has changed and exchanges it in place, so that the scroll position, what is folded
 * out and the focus stay; forms and links that only change this page are followed in place as well. Only the main part
 * of a page is parsed: the rest would meet this page's own policy. It waits while the tab is hidden, text is
 * selected or the pointer is over buttons, and says when it is cut off. What is typed is read from its form at once: the form may be exchanged before it is sent.
 */
export const REFRESH_SCRIPT = `(() => {
  'use strict';
  const every = ${EVERY_SECONDS * 1_000};
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
