import { describe, expect, it } from 'vitest';
import { jsonSuite } from '../support/corpora.ts';
import { clientFor, get, serve, testProfile } from './stage.ts';

const corpus = jsonSuite('test_parsing');

/** The outcome of each file, over one client and server. */
async function outcomes(kind: string): Promise<Record<string, string>> {
  const stage = await serve((request, response) => {
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(corpus.get(decodeURIComponent(request.url?.slice('/v1/'.length) ?? '')));
  });
  const client = clientFor(stage.origin, { profile: testProfile({ http: { attempts: 1 } }) });
  const found: Record<string, string> = {};
  for (const name of [...corpus.keys()].filter((name) => name.startsWith(kind))) {
    found[name] = await get(client, `${stage.origin}/v1/${encodeURIComponent(name)}`).then(
      () => 'ok',
      (error: { code: string }) => error.code,
    );
  }
  return found;
}

describe('F089 F090 JSONTestSuite as bodies', () => {
  it('every y_ is accepted, but a body that is null is no page', async () => {
    const found = await outcomes('y_');
    expect(Object.keys(found)).toHaveLength(95);
    expect(Object.entries(found).filter(([, outcome]) => outcome !== 'ok')).toEqual([
      ['y_structure_lonely_null.json', 'empty_body'],
    ]);
  });

  it('every n_ is refused', async () => {
    const found = await outcomes('n_');
    expect(Object.keys(found)).toHaveLength(188);
    expect(Object.entries(found).filter(([, outcome]) => outcome === 'ok')).toEqual([]);
  });

  it('of the i_, all that is not valid UTF-8 is refused, and nothing else', async () => {
    const found = await outcomes('i_');
    const utf8 = new TextDecoder('utf-8', { fatal: true });
    for (const [name, outcome] of Object.entries(found)) {
      const valid = ((): boolean => {
        try {
          return utf8.decode(corpus.get(name)) !== undefined;
        } catch {
          return false;
        }
      })();
      expect([name, outcome]).toEqual([name, valid ? 'ok' : 'bad_text']);
    }
  });
});
