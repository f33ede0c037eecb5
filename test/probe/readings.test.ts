import { describe, expect, it } from 'vitest';
import type { JsonValue } from '../../src/model/json.ts';
import { idCandidates, recordArrays } from '../../src/probe/body.ts';
import { formNamed, formsFor, likeliestFirst } from '../../src/probe/credential.ts';
import { chooseMoment } from '../../src/checks/filter.ts';
import { zoneFor } from '../../src/probe/fields.ts';
import { missingId } from '../../src/probe/item.ts';
import { documentedListings, linkedPaths, resourceName } from '../../src/probe/listings.ts';

const one = { id: 1, a: 'x' };
const other = { id: 2, a: 'y' };
const two = [one, other];

const PLACES: [string, JsonValue, string][] = [
  ['a bare list', two, ''],
  ['the usual name before a longer list', { data: two, tags: [{ n: 1 }, { n: 2 }, { n: 3 }] }, 'data'],
  ['the name of the resource', { posts: two, authors: [{ n: 1 }, { n: 2 }, { n: 3 }] }, 'posts'],
  ['deep', { response: { results: two } }, 'response.results'],
  ['in wrappers', { items: { edges: two.map((node) => ({ node, cursor: 'c' })) } }, 'items.edges[*].node'],
  ['in a map', { query: { pages: { 'a.b': one, '7': other } } }, 'query.pages.*'],
  ['in a list of one', { posts: [{ items: two }] }, 'posts[0].items'],
  ['not in their own lists', { data: [{ id: 1, tags: [{ n: 1 }, { n: 2 }, { n: 3 }] }] }, 'data'],
];

describe('where records stand', () => {
  it.each(PLACES)('%s', (_, json, path) => {
    expect(recordArrays(json, 'posts')[0]?.path).toBe(path);
  });
});

describe('what identifies a record', () => {
  it('is unique, in every record, and no link to another', () => {
    const records = [1, 2, 3].map((n) => ({ title: `t${n}`, documentId: `d${n}`, id: n, author_id: 1, slug: `s${n}` }));
    expect(idCandidates(records, 'posts')).toEqual(['id', 'documentId', 'slug']);
    expect(
      idCandidates(
        records.map((record) => Object.assign(record, { id: 1 })),
        'posts',
      )[0],
    ).toBe('documentId');
  });

  it.each([
    [17, '987654338'],
    ['00001eef-0000-4000-8000-00000000012a', '00001eef-0000-4000-8000-00000077789d'],
    ['welcome', 'wblfomb'],
    ['xyz', 'xyzzz'],
  ])('%s: another one of its form that nobody has', (id, missing) => {
    expect(missingId(id)).toBe(missing);
  });
});

function pair(local: string, moment: string): { local: number; moment: number } {
  return { local: Date.parse(`${local}Z`), moment: Date.parse(`${moment}Z`) };
}

describe('a moment for a filter', () => {
  it.each([
    [['01-01T08:00', '01-02T08:00', '01-02T09:00', '03-01T08:00'], '01-02T08:50', 'on the day of a later record'],
    [['01-01T08:00', '01-05T08:00', '01-09T08:00'], '01-05T07:50', 'in the middle, if no two are of one day'],
    [['01-01T08:00', '01-01T08:01'], '01-01T08:00:30', 'half-way, if the overlap is longer'],
  ])('between %j is %s: %s', (times, moment) => {
    const records = times.map((time) => ({ key: time, text: time, at: Date.parse(`2026-${time}Z`) }));
    expect(chooseMoment(records, 600_000)).toBe(Date.parse(`2026-${moment}Z`));
    expect(chooseMoment(records.slice(0, 1), 600_000)).toBeNull();
  });
});

describe('a zone', () => {
  const winter = pair('2026-01-10T13:00:00', '2026-01-10T12:00:00');
  const summer = pair('2026-07-10T14:00:00', '2026-07-10T12:00:00');

  it('is that which the service names, or one in which all seasons are right', () => {
    expect(zoneFor([winter, summer], 'Europe/Paris')).toEqual({ name: 'Europe/Paris', isSure: true });
    expect(zoneFor([winter, summer], null)).toEqual({ name: 'Europe/Zurich', isSure: true });
    expect(zoneFor([summer], null)?.isSure).toBe(false);
    expect(zoneFor([winter], 'America/New_York')?.name).not.toBe('America/New_York');
    expect(zoneFor([pair('2026-01-10T12:07:00', '2026-01-10T12:00:00')], null)).toBeNull();
  });
});

describe('the form of a credential', () => {
  it('is tried first where a refusal names it', () => {
    const forms = formsFor({ secret: 's' }, undefined);
    expect(likeliestFirst(forms, 'Missing X-API-Key header')[0]?.shown).toBe('X-API-Key: <key>');
    expect(likeliestFirst(forms, '{"error":"the parameter \'key\' is missing"}')[0]?.shown).toBe('?key=<key>');
    expect(likeliestFirst(forms, 'Bearer realm="api"')[0]?.shown).toBe('Authorization: Bearer');
  });

  it.each([
    ['nothing', '', undefined, []],
    ['prose', '{"error":"Missing or invalid API key"}', undefined, []],
    ['the parameter by its name', 'expected ?api_key=', undefined, ['?api_key=<key>']],
    ['the option', '', 'query:key', ['?key=<key>']],
  ])('a key is sent in the address where it is asked for, by %s', (_, refusal, forced, sent) => {
    const forms = likeliestFirst(formsFor({ secret: 's' }, forced), refusal);
    expect(forms.filter(({ scheme }) => scheme['in'] === 'query').map(({ shown }) => shown)).toEqual(sent);
  });

  it('may be forced', () => {
    expect(formNamed('header:X-Cms', undefined)?.carry('s')).toEqual({ headers: { 'x-cms': 's' } });
    expect(formNamed('query:api[key]', undefined)?.carry('s')).toEqual({ query: { 'api[key]': 's' } });
    expect(formNamed('basic', undefined)).toBeNull();
    expect(formNamed('header:a b', undefined)).toBeNull();
  });
});

describe('listings that a document names', () => {
  const base = new URL('https://cms.example.com/api');

  it('are paths with single records, those with usual names first', () => {
    const get = { get: { parameters: [{ in: 'query', name: 'changed_since' }] } };
    const paths = { '/login': get, '/zebras': get, '/zebras/{id}': get, '/posts': get, '/posts/{id}': get, '/me': get };
    const found = documentedListings(
      { openapi: '3.1.0', servers: [{ url: 'https://cms.example.com/api' }], paths },
      base,
    );
    expect(found.paths).toEqual(['/posts', '/zebras']);
    expect(found.parameters).toContain('changed_since');
  });

  it('are links below the address, and none that lead away', () => {
    const links = {
      a: 'https://cms.example.com/api/articles',
      b: 'https://elsewhere.example/api/posts',
      c: '/api/settings',
    };
    expect(linkedPaths(links, base)).toEqual(['/articles']);
  });

  it('have names of their own', () => {
    expect(resourceName('/upload/files', new Set())).toBe('files');
    expect(resourceName('/upload/files', new Set(['files']))).toBe('upload_files');
    expect(resourceName('/Blog-Posts/', new Set())).toBe('blog_posts');
    expect(resourceName('/1', new Set())).toBe('records');
  });
});
