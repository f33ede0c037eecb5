import { describe, expect, it } from 'vitest';
import { rateDialectSchema } from '../../../src/config/profile/rate-dialect.ts';
import { type AnswerLimits, type QuotaHint, readAnswerLimits } from '../../../src/http/rate-limit/answer-limits.ts';
import type { JsonValue } from '../../../src/model/json.ts';

const DATE = 'Fri, 20 Nov 2026 08:00:00 GMT';
const SERVER = Date.parse(DATE);
const epoch = SERVER / 1_000;

type Headers = Record<string, string | string[]>;

function read(dialect: unknown, headers: Headers, body?: JsonValue, receivedAt = SERVER + 400): AnswerLimits {
  return readAnswerLimits({ headers: { date: DATE, ...headers }, body, receivedAt }, rateDialectSchema.parse(dialect));
}

function quota(said: Partial<QuotaHint>): unknown {
  return expect.objectContaining(said);
}

describe('F019-F021 Retry-After', () => {
  const waits: [string, Headers, number | null][] = [
    ['whole seconds', { 'retry-after': '7' }, 7_000],
    ['a float, as Shopify sends it', { 'retry-after': '2.0' }, 2_000],
    ['nothing to wait', { 'retry-after': '0' }, 0],
    ['F020 an IMF-fixdate', { 'retry-after': 'Fri, 20 Nov 2026 08:00:30 GMT' }, 30_000],
    ['a date that has just passed', { 'retry-after': 'Fri, 20 Nov 2026 07:59:30 GMT' }, 0],
    ['two values: the longer', { 'retry-after': ['3', '9'] }, 9_000],
    ['a negative number', { 'retry-after': '-5' }, null],
    ['a word', { 'retry-after': 'soon' }, null],
    ['a date of last year', { 'retry-after': 'Thu, 20 Nov 2025 08:00:00 GMT' }, null],
  ];
  it.each(waits)('reads %s', (_name, headers, waitMs) => {
    expect(read('auto', headers)).toEqual({ retryAfterMs: waitMs, waitMs, quotas: [] });
  });
});

describe('F023 the dialects of reliability.md section 3', () => {
  const rows: [string, unknown, Headers, Partial<QuotaHint>][] = [
    [
      '2 the current IETF fields',
      'auto',
      { ratelimit: '"p";r=0;t=20', 'ratelimit-policy': '"p";q=100;w=60;pk=:cHJvZg==:' },
      { limit: 100, remaining: 0, resetMs: 20_000, windowMs: 60_000 },
    ],
    [
      '3 the dictionary of draft 7',
      'auto',
      { ratelimit: 'limit=10, remaining=1, reset=7', 'ratelimit-policy': '10;w=60' },
      { limit: 10, remaining: 1, resetMs: 7_000, windowMs: 60_000 },
    ],
    [
      '4 the fields of draft 6',
      'auto',
      { 'ratelimit-limit': '10, 10;w=1, 1000;w=3600', 'ratelimit-remaining': '4', 'ratelimit-reset': '50' },
      { limit: 10, remaining: 4, resetMs: 50_000, windowMs: 1_000 },
    ],
    [
      '5 GitHub',
      'github',
      {
        'x-ratelimit-limit': '5000',
        'x-ratelimit-remaining': '10',
        'x-ratelimit-reset': String(epoch + 90),
        'x-ratelimit-resource': 'core',
      },
      { name: 'default#core', limit: 5_000, remaining: 10, resetMs: 90_000 },
    ],
    ['7 Shopify', 'shopify', { 'x-shopify-shop-api-call-limit': '32/40' }, { limit: 40, remaining: 8, refill: 2 }],
    [
      '8 Contentful',
      'contentful',
      {
        'x-contentful-ratelimit-second-limit': '7',
        'x-contentful-ratelimit-second-remaining': '5',
        'x-contentful-ratelimit-hour-limit': '36000',
        'x-contentful-ratelimit-hour-remaining': '35000',
      },
      { name: 'second', limit: 7, remaining: 5, windowMs: 1_000 },
    ],
    [
      '11 HubSpot',
      'hubspot',
      {
        'x-hubspot-ratelimit-max': '100',
        'x-hubspot-ratelimit-remaining': '98',
        'x-hubspot-ratelimit-interval-milliseconds': '10000',
      },
      { limit: 100, remaining: 98, windowMs: 10_000 },
    ],
    [
      'one of a profile of its own',
      {
        headers: [
          { name: 'X-Left', means: 'remaining' },
          { name: 'X-Again-In', means: 'reset', unit: 'ms' },
        ],
      },
      { 'x-left': '0', 'x-again-in': '1500' },
      { remaining: 0, resetMs: 1_500 },
    ],
  ];
  it.each(rows)('reads %s', (_name, dialect, headers, said) => {
    const hint = read(dialect, headers);
    expect(hint.quotas).toContainEqual(quota(said));
  });

  it('reads the level in a GraphQL body', () => {
    const throttleStatus = { maximumAvailable: 1_000, currentlyAvailable: 12, restoreRate: 50 };
    const hint = read('body-throttle', {}, { extensions: { cost: { throttleStatus } } });
    expect(hint.quotas).toEqual([quota({ limit: 1_000, remaining: 12, refill: 50 })]);
  });
});

describe('auto reads what the removed presets read', () => {
  const ten = { 'x-ratelimit-limit': '10', 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': '30' };
  const rows: [string, Headers, Partial<QuotaHint>[], number | null][] = [
    [
      'ietf: several policies',
      {
        ratelimit: ['"burst";r=0;t=1', '"day";r=5;t=300'],
        'ratelimit-policy': '"burst";q=10;w=1, "day";q=900;w=86400',
      },
      [
        { limit: 10, remaining: 0, resetMs: 1_000, windowMs: 1_000 },
        { limit: 900, remaining: 5, resetMs: 300_000, windowMs: 86_400_000 },
      ],
      null,
    ],
    [
      'ietf-draft7',
      { ratelimit: 'limit=10, remaining=0, reset=7', 'ratelimit-policy': '10;w=60' },
      [{ limit: 10, remaining: 0, resetMs: 7_000, windowMs: 60_000 }],
      null,
    ],
    ['legacy', ten, [{ limit: 10, remaining: 0, resetMs: 30_000 }], null],
    [
      'kong',
      {
        'ratelimit-limit': '60',
        'ratelimit-remaining': '59',
        'ratelimit-reset': '31',
        'x-ratelimit-limit-minute': '60',
        'x-ratelimit-remaining-minute': '59',
        'x-ratelimit-remaining-day': '7',
      },
      [
        { limit: 60, remaining: 59, resetMs: 31_000 },
        { limit: 60, remaining: 59, windowMs: 60_000 },
        { remaining: 7, windowMs: 86_400_000 },
      ],
      null,
    ],
    ['stripe', { 'retry-after': '7' }, [], 7_000],
    ['Retry-After before a quota', { ...ten, 'retry-after': '7' }, [{ remaining: 0, resetMs: 30_000 }], 7_000],
  ];
  it.each(rows)('%s', (_name, headers, quotas, waitMs) => {
    expect(read('auto', headers)).toMatchObject({ waitMs, quotas: quotas.map(quota) });
  });
});

describe('auto', () => {
  const resets: [string, string, number][] = [
    ['delta seconds', '30', 30_000],
    ['Unix seconds', String(epoch + 30), 30_000],
    ['Unix milliseconds', String(SERVER + 30_000), 30_000],
    ['an ISO date', '2026-11-20T08:00:30Z', 30_000],
    ['an HTTP-date', 'Fri, 20 Nov 2026 08:00:30 GMT', 30_000],
    ['a duration', '1m30s', 90_000],
  ];
  it.each(resets)('F023 tells a reset as %s', (_name, reset, resetMs) => {
    const hint = read('auto', { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': reset });
    expect(hint.quotas).toEqual([quota({ remaining: 0, resetMs })]);
  });

  it.each(['x-ratelimit', 'ratelimit', 'x-rate-limit'])('knows %s-*', (prefix) => {
    const hint = read('auto', { [`${prefix}-limit`]: '9', [`${prefix}-remaining`]: '8', [`${prefix}-reset`]: '7' });
    expect(hint.quotas).toEqual([quota({ limit: 9, remaining: 8, resetMs: 7_000 })]);
  });

  it.each([-3_600_000, 3_600_000])(
    'F027 reads a moment against the Date of the answer, local clock off by %i',
    (off) => {
      const headers = { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': String(epoch + 30) };
      expect(read('auto', headers, undefined, SERVER + off).quotas).toEqual([quota({ resetMs: 30_000 })]);
    },
  );

  it('reads a moment against the local clock where the answer has no usable Date', () => {
    const headers = { date: 'today', 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': String(epoch + 30) };
    expect(read('auto', headers, undefined, SERVER + 10_000).quotas).toEqual([quota({ resetMs: 20_000 })]);
  });
});

describe('F024 several policies', () => {
  it('reads each, over split header lines, with parameters it does not know', () => {
    const hint = read('auto', {
      ratelimit: ['"burst";r=3;t=1;x=?1', '"day";r=900;t=40000'],
      'ratelimit-policy': ['"burst";q=10;w=1;comment="fast"', '"day";q=1000;w=86400'],
    });
    expect(hint.quotas).toEqual([
      quota({ name: 'default/burst', limit: 10, remaining: 3, windowMs: 1_000 }),
      quota({ name: 'default/day', limit: 1_000, remaining: 900, windowMs: 86_400_000 }),
    ]);
  });

  it('marks a quota that counts bytes', () => {
    const hint = read('auto', { ratelimit: '"b";r=0;t=9', 'ratelimit-policy': '"b";q=1000;w=9;qu="content-bytes"' });
    expect(hint.quotas).toEqual([quota({ remaining: 0, resetMs: 9_000, requests: false })]);
  });

  it.each([
    ['a broken list', { ratelimit: '"p";r=;t' }],
    ['a negative remainder', { ratelimit: '"p";r=-1;t=5' }],
    ['a remainder in words', { 'ratelimit-remaining': 'few' }],
    ['a reset that ended an hour ago', { 'x-ratelimit-reset': String(epoch - 3_700) }],
  ])('ignores and counts %s', (_name, headers: Headers) => {
    expect(read('auto', headers)).toEqual({
      retryAfterMs: null,
      waitMs: null,
      quotas: [],
    });
  });
});

it('the wait in a vendor header yields to the standard field, and Retry-After to none', () => {
  const dialect = { base: 'auto', headers: [{ name: 'x-wait', means: 'wait' }] };
  const standard = { 'x-wait': '99', ratelimit: '"p";r=0;t=20' };
  expect(read(dialect, standard).waitMs).toBeNull();
  expect(read(dialect, { ...standard, 'retry-after': '7' }).waitMs).toBe(7_000);
});
