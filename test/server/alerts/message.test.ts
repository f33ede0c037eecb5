import { describe, expect, it } from 'vitest';
import { begunMessage, overMessage } from '../../../src/server/alerts/message.ts';
import { bodyFault, renderAlertBody } from '../../../src/config/alerts-schema.ts';
import { conditionOf } from './alert-samples.ts';

const NOW = Date.parse('2026-11-20T08:12:00Z');
const PLACE = {
  now: NOW,
  publicUrl: 'https://sync.example.com/',
  scrub: (text: string) => text.replaceAll('s3cret', '***'),
};

describe('a message', () => {
  it('says what happened, since when, what to do, and where to look', () => {
    const names = ['content', 'images', ...Array.from({ length: 18 }, (_, n) => `more_${n}`)];
    const what = 'The last run failed: the service refused the credential s3cret [auth_failed]';
    const failed = names.map((resource) => conditionOf({ resource, what, next: 'check auth', cause: 'auth_failed' }));
    const held = conditionOf({
      kind: 'held_deletes',
      cause: 'heldDeletes',
      what: '12 deletes held back',
      command: 'content-sync deletes list',
    });
    const { title, text, ...rest } = begunMessage([...failed, held], PLACE);
    expect(title).toBe(
      'content-sync: failed, deletes held back: blog (content, images, more_0, more_1, more_2 and 15 more)',
    );
    expect(text).toBe(
      [
        'FAILED: blog (content, images, more_0, more_1, more_2 and 15 more)',
        'The last run failed: the service refused the credential *** [auth_failed]',
        'since 2026-11-20 08:00 UTC',
        '→ check auth',
        '',
        'DELETES HELD BACK: blog (content)',
        '12 deletes held back',
        'since 2026-11-20 08:00 UTC',
        '$ content-sync deletes list',
        '',
        'https://sync.example.com/#blog',
      ].join('\n'),
    );
    expect(rest).toMatchObject({ status: 'firing', count: 21, kinds: ['failed', 'held_deletes'], sources: ['blog'] });
    expect(JSON.stringify(rest)).not.toContain('s3cret');
  });

  it('of a hundred sources is short', () => {
    const all = Array.from({ length: 300 }, (_, n) => conditionOf({ source: `s${n % 100}`, resource: `r${n % 3}` }));
    const { title, text, things } = begunMessage(all, PLACE);
    expect(title).toBe('content-sync: failed: 100 sources');
    expect(text.length).toBeLessThan(500);
    expect(text).toContain('and 92 more');
    expect(things).toHaveLength(100);
  });

  it('says for how long it was when it is over', () => {
    const row = { channel: 'ops', source: 'blog', alert: 'failed content', what: 'it failed', since: NOW - 720_000 };
    const told = { ...row, told_at: NOW - 700_000, over_at: null };
    const { title, text } = overMessage([told], { ...PLACE, publicUrl: null });
    expect(title).toBe('content-sync: over: failed: blog (content)');
    expect(text).toBe('FAILED: blog (content)\nOver. It began at 2026-11-20 08:00 UTC and lasted 12m 00s.');
  });
});

describe('a template', () => {
  const nasty = 'a "quoted" \\ text\n{count} $& \u2028 </script> & ü=1';

  it('takes any text where JSON, a form or plain text is asked for', () => {
    const valueOf = (): string => nasty;
    const json = renderAlertBody(
      '{"text": "{title}", "blocks": [{"n": "{text}"}], "none": {}}',
      'application/json',
      valueOf,
    );
    expect(JSON.parse(json)).toEqual({ text: nasty, blocks: [{ n: nasty }], none: {} });
    expect(renderAlertBody('{title}', 'text/plain', valueOf)).toBe(nasty);
    const form = renderAlertBody('a={title}&b=1', 'application/x-www-form-urlencoded', valueOf);
    expect(Object.fromEntries(new URLSearchParams(form))).toEqual({ a: nasty, b: '1' });
  });

  it.each<[string, Record<string, string>, RegExp]>([
    ['{"text": "{title}", "n": {count}}', {}, /^good$/],
    ['{"text": {title}}', {}, /expected JSON/],
    ['{"text": "{title}"', {}, /expected JSON/],
    ['{title}: {text}', { 'Content-Type': 'text/plain' }, /^good$/],
    ['{"text": "{titel}"}', {}, /placeholders status, title.*got \{titel\}/],
  ])('%s is checked before anything is sent', (template, headers, expected) => {
    expect(bodyFault(template, headers) ?? 'good').toMatch(expected);
  });
});
