import { describe, expect, it } from 'vitest';
import { isJson, scrub, scrubJson, scrubOwn } from '../../src/observe/scrub.ts';

const PLAIN = 'Canary4711SecretValue';
const ODD = 'p+a/s s"w\\ö%=d\n!';

const base64 = (text: string): string => Buffer.from(text).toString('base64');
const base64url = (text: string): string => Buffer.from(text).toString('base64url');

describe.each([
  ['of letters and digits', PLAIN],
  ['with every kind of special character', ODD],
])('T17 a secret %s is replaced', (_, secret) => {
  const ways: [string, string][] = [
    ['as it is', secret],
    ['inside a word', `x${secret}y`],
    ['escaped for JSON', JSON.stringify(secret)],
    ['escaped for JSON twice, as a body inside a log line', JSON.stringify(JSON.stringify({ secret }))],
    ['escaped for a URL', `https://a.b/?k=${encodeURIComponent(secret)}&x=1`],
    ['escaped for a URL twice', encodeURIComponent(encodeURIComponent(secret))],
    ['escaped as a form', new URLSearchParams({ k: secret }).toString()],
    ['in base64', base64(secret)],
    ['in base64 for URLs', base64url(secret)],
    ['in basic authentication', `Basic ${base64(`client:${secret}`)}`],
    ['in base64 after one byte', base64(`x${secret}`)],
    ['in base64 after two bytes', base64(`xy${secret}`)],
    ['in base64 with bytes after it', base64(`${secret}tail of some length`)],
    ['in hex', Buffer.from(secret).toString('hex')],
    ['in upper-case hex', Buffer.from(secret).toString('hex').toUpperCase()],
  ];

  it.each(ways)('%s', (_, text) => {
    const scrubbed = scrub(text, [secret]);
    expect(scrubbed).toContain('***');
    for (const [, form] of ways.slice(0, 1)) expect(scrubbed).not.toContain(form);
    expect(scrubbed).not.toContain(base64(secret).slice(4, 16));
    expect(scrubbed.toLowerCase()).not.toContain(Buffer.from(secret).toString('hex').slice(2, 12));
  });
});

describe('scrubbing', () => {
  it('leaves a text without a secret exactly as it is', () => {
    const text = JSON.stringify({ msg: 'Canary4711 SecretValue', n: [1, 2.5], b: base64('something else') });
    expect(scrub(text, [PLAIN, ODD])).toBe(text);
  });

  it('replaces all secrets everywhere, a longer one before a shorter one inside it', () => {
    expect(scrub('abcdefghij, abcdefgh, abcdefghij', ['abcdefgh', 'abcdefghij'])).toBe('***, ***, ***');
  });

  it.each([
    ['content', 'pin', 'the pin is not in spinning', 'the *** is not in spinning'],
    ['numbers', '47', '{"n":1470,"key":"47"}', '{"n":1470,"key":"***"}'],
    ['escapes before it', 'pin', String.raw`{"msg":"a\npin\tb%20pin"}`, String.raw`{"msg":"a\n***\tb%20***"}`],
  ])('finds a short secret only as a word: %s', (_, secret, text, expected) => {
    expect(scrub(text, [secret])).toBe(expected);
  });

  it.each([
    ['…in the secret', 'at the end: Canary47…', 'at the end: ***…'],
    ['…in the secret, within JSON', '{"a":"Canary4711Secr…"}', '{"a":"***…"}'],
    ['…in the secret, escaped', 'k=p%2Ba%2Fs%20s…', 'k=***…'],
    ['…after so little of it that it gives nothing away', 'Can…', 'Can…'],
    ['nowhere', 'Canary4711Secr', 'Canary4711Secr'],
  ])('finds the beginning of a secret where a text was cut %s', (_, text, expected) => {
    expect(scrub(text, [PLAIN, ODD])).toBe(expected);
  });

  it('of a text of ours leaves the words that a short secret is, and no longer one', () => {
    const secrets = ['the', '401', 'seven77', 'eight888'];
    const text = 'the answer 401 says seven77 and eight888, and eight8… or ZWlnaHQ4ODg=';
    expect(scrubOwn(text, secrets)).toBe('the answer 401 says seven77 and ***, and ***… or ***g=');
    expect(scrub(text, secrets)).toBe('*** answer *** says *** and ***, and ***… or ***g=');
    secrets.push('a-token-of-today');
    expect(scrubOwn('the a-token-of-today', secrets)).toBe('the ***');
  });

  it.each([
    ['in base64', base64(`client:${PLAIN}`).slice(0, 28)],
    ['in hex', Buffer.from(PLAIN).toString('hex').slice(0, 12)],
  ])('finds the beginning of a secret where a text was cut %s', (_, text) => {
    expect(scrub(`${text}…`, [PLAIN, ODD])).toMatch(/\*\*\*…$/);
  });

  it('leaves all around a secret as it was, halves of characters and blanks too', () => {
    const [before, after] = ['\ud83d é\u{1f600} ', ' \udc00 … \\'];
    expect(scrub(before + PLAIN + after, [PLAIN])).toBe(`${before}***${after}`);
    expect(scrub(`${before}${Buffer.from(PLAIN).toString('hex')}${after}`, [PLAIN])).toBe(`${before}***${after}`);
  });

  it('is no regular expression by itself', () => {
    expect(scrub('a.b*c(d)[e]{f}|g^h$i-j', ['a.b*c(d)[e]{f}|g^h$i-j'])).toBe('***');
    expect(scrub('aXbbc(d)', ['a.b*c(d)'])).toBe('aXbbc(d)');
  });
});

describe('a line of JSON', () => {
  it.each([
    ['{"msg":"a correct horse"}', '{"msg":"a ***"}'],
    ['{"n":1234567890,"m":12}', '{"n":"***","m":12}'],
    ['{"correct horse":[1234567890]}', '{"***":["***"]}'],
    ['{"msg":"nothing"}', '{"msg":"nothing"}'],
  ])('%s stays JSON', (line, expected) => {
    expect(scrubJson(line, ['1234567890', 'correct horse'])).toBe(expected);
    expect(isJson(expected)).toBe(true);
  });
});
