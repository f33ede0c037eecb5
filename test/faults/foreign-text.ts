import { parseLinkHeader } from '../../src/extract/page-styles/link-header.ts';
import { linkedPosition } from '../../src/extract/page-styles/listing-request.ts';
import { isNumericStep } from '../../src/extract/walked-pages.ts';
import { scrubbedSnippet, shownUrl, snippet } from '../../src/http/body/safe-text.ts';
import { nextHop } from '../../src/http/redirect.ts';
import { isSecretName } from '../../src/model/secret-name.ts';
import { visibleText } from '../../src/model/visible-text.ts';
import { createLog } from '../../src/observe/log.ts';
import { scrub, scrubJson, scrubOwn } from '../../src/observe/scrub.ts';
import { policyMembers, rateLimitMembers, readAnswerLimits } from '../../src/queue/limits/answer-limits.ts';
import { rateDialectSchema } from '../../src/source/rate-dialect.ts';
import { parseTemplate, signatureSchema } from '../../src/source/signature-scheme.ts';
import { isAuthorized } from '../../src/web/door.ts';
import { deliveryMask } from '../../src/web/receiver/mask-delivery.ts';
import { routeOf } from '../../src/web/receiver/requests.ts';
import { attempt, type TextWork } from '../support/linear-time.ts';
import { schemes } from '../trigger/verify-fuzz.ts';

const HOME = new URL('https://api.example/v1/');
const SECRETS = [
  '/ping/4711-abc',
  '\\\\"\\n token',
  '-----',
  'aaaaaaaaaaaaaaaaaaaa',
  '%2F%2F%2F%2F',
  'short',
  'é😀é😀é😀é😀',
];
const RATE_HEADERS = [
  'retry-after',
  'date',
  'age',
  'ratelimit',
  'ratelimit-policy',
  'x-ratelimit-reset',
  'x-shopify-shop-api-call-limit',
];
const DIALECTS = (['auto', 'ietf', 'openai', 'github'] as const).map((name) => rateDialectSchema.parse(name));
const LOG = createLog({ level: 'info', secrets: SECRETS, destination: { write: () => undefined } });
const MASK = deliveryMask(SECRETS, signatureSchema.parse('prismic'), { secrets: [{ value: '\\own "secret' }] });
const NOW = 1_760_000_000_000;
const NO_NAMES: ReadonlySet<string> = new Set();

/** Everything that touches a text that a service, a sender of webhooks or a reader of the pages wrote. */
export const TEXT_WORKS: readonly TextWork[] = [
  { name: 'the scrubber', work: (text) => scrub(text, SECRETS) },
  { name: 'the scrubber of our own texts', work: (text) => scrubOwn(`${text}…`, SECRETS) },
  {
    name: 'the scrubber, with a secret as a service gives it',
    work: (text) => scrub(text, [`/${text.slice(text.length - text.length / 8)}`]),
  },
  { name: 'the scrubber of JSON', work: (text) => scrubJson(JSON.stringify({ text, [text]: [text] }), SECRETS) },
  { name: 'a line of the log', work: (text) => LOG.info({ text, err: new Error(text) }, text) },
  { name: 'the mask of a delivery', work: masked },
  { name: 'visible text', work: visibleText },
  { name: 'a snippet', work: (text) => [snippet(text), scrubbedSnippet(text, SECRETS)] },
  {
    name: 'a URL that is shown',
    work: (text) => attempt(() => shownUrl(new URL(text, HOME), { shown: NO_NAMES, hidden: NO_NAMES })),
    frames: [
      ['', ''],
      ['?a=', ''],
      ['?', '=1'],
    ],
  },
  { name: 'a name that may be of a secret', work: isSecretName },
  {
    name: 'a Link header',
    work: parseLinkHeader,
    frames: [
      ['', ''],
      ['<', ''],
      ['<a>', ';'],
      ['<a>; rel="', ''],
      ['<a>; rel=', ', <'],
      ['<a>; b="', '"; c'],
    ],
  },
  {
    name: 'a link to the next page',
    work: (text) => linkedPosition(HOME, HOME, text),
    frames: [
      ['', ''],
      ['//', '@'],
      ['?', ''],
    ],
  },
  {
    name: 'a redirect',
    work: (text) =>
      attempt(() =>
        nextHop({ url: HOME, credentialed: true, count: 0 }, text, {
          home: HOME.origin,
          allowed: new Set([HOME.origin, 'https://b.example']),
          secrets: SECRETS,
        }),
      ),
    frames: [
      ['', ''],
      ['https://b.example/', ''],
    ],
  },
  {
    name: 'a position with a number in it',
    work: (text) => {
      // As any cursor is sent: what is behind a # would be the position's values elsewhere.
      const [one, two] = [1, 2].map((number) => `/a?${new URLSearchParams({ p: `${text}${number}` }).toString()}`);
      isNumericStep(one ?? '', two ?? '', 10);
    },
  },
  {
    name: 'headers of limits',
    work: rateHints,
    frames: [
      ['', ''],
      ['"', '"'],
      ['1', 's'],
      ['1.', ';'],
      ['"a";r=1;', ''],
      ['Mon, 01 Jan 2026 ', ' GMT'],
      ['2026-01-01T00:00:00.', 'Z'],
    ],
  },
  {
    name: 'structured fields',
    work: (text) => [rateLimitMembers(text), policyMembers(text)],
    frames: [
      ['', ''],
      ['"', '"'],
      ['(', ')'],
      ['"a";r=1;', ''],
      [':', ':'],
      ['%"', '"'],
      ['1', ', b'],
    ],
  },
  {
    name: 'a template',
    work: parseTemplate,
    frames: [
      ['', ''],
      ['{', '}'],
    ],
  },
  {
    name: 'signed deliveries',
    work: verified,
    frames: [
      ['', ''],
      ['t=1,v1=', ''],
      ['{"secret":"', '"}'],
    ],
  },
  {
    name: 'the target of a request',
    work: routeOf,
    frames: [
      ['/', ''],
      ['/webhooks/', ''],
      ['/a?', ''],
    ],
  },
  {
    name: 'a password',
    work: (text) => isAuthorized({ user: 'a', password: 'b' }, text),
    frames: [
      ['basic ', ''],
      ['basic ', '= x'],
      ['basic', ''],
    ],
  },
];

function masked(text: string): unknown {
  const headers = JSON.stringify({ a: text });
  return MASK({ delivery_id: text, is_id_sent: true, received_at: '', headers, body: Buffer.from(text) });
}

function rateHints(text: string): unknown {
  const headers = Object.fromEntries(RATE_HEADERS.map((name) => [name, text]));
  return DIALECTS.map((dialect) =>
    readAnswerLimits({ headers, body: { retry_after: text }, receivedAt: NOW }, dialect),
  );
}

function verified(text: string): unknown {
  return schemes.map(({ verify, delivery }) => {
    const headers = Object.fromEntries(Object.keys(delivery.headers).map((name) => [name, text]));
    return verify({ method: 'POST', path: `/w?token=${text}`, headers, body: Buffer.from(text) }, NOW);
  });
}
