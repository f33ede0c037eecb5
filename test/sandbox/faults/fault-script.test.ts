import { describe, expect, it } from 'vitest';
import { type FaultScript, FAULTS, parseFault } from '../../../src/sandbox/faults/fault-script.ts';
import type { Sandbox } from '../../../src/sandbox/sandbox.ts';
import { LIST, faulty } from '../faulty-sandbox.ts';
import { ask } from '../service-client.ts';

async function statuses(sandbox: Sandbox, count: number): Promise<number[]> {
  const seen: number[] = [];
  for (let turn = 0; turn < count; turn += 1) seen.push((await ask(sandbox, LIST)).status);
  return seen;
}

describe('the script', () => {
  it('meets the nth matching request, so many times', async () => {
    const sandbox = await faulty({ fault: 'status', status: 503, resource: 'content', nth: 3, times: 2 });
    await ask(sandbox, '/v1/images');
    expect(await statuses(sandbox, 6)).toEqual([200, 200, 503, 503, 200, 200]);
  });

  it('meets every so many, by method, by path, until it is taken away', async () => {
    const sandbox = await faulty({ fault: 'status', every: 3, method: 'get', path: 'limit=10' });
    expect(await statuses(sandbox, 6)).toEqual([200, 200, 500, 200, 200, 500]);
    sandbox.faults.clear();
    const handle = sandbox.faults.add({ fault: 'status' });
    expect(await statuses(sandbox, 2)).toEqual([500, 500]);
    expect(handle.fired).toBe(2);
    handle.remove();
    expect(await statuses(sandbox, 1)).toEqual([200]);
  });

  it('F039 meets a page however often it is asked for', async () => {
    const sandbox = await faulty({ fault: 'status', page: 2 }, { pagination: 'page' });
    const ofPage = async (number: number) => (await ask(sandbox, `${LIST}&page=${number}`)).status;
    expect([await ofPage(1), await ofPage(2), await ofPage(2), await ofPage(3)]).toEqual([200, 500, 500, 200]);
  });

  it('F030 meets a share of requests, the same ones for the same seed', async () => {
    const script: FaultScript = { fault: 'status', status: 429, probability: 0.3, seed: 5 };
    const [one, two] = [await statuses(await faulty(script), 40), await statuses(await faulty(script), 40)];
    expect(one).toEqual(two);
    const hits = one.filter((status) => status === 429).length;
    expect(hits > 4 && hits < 22).toBe(true);
  });

  it.for<[string, object]>([
    [
      'status:503,resource=content,nth=3,times=2',
      { fault: 'status', status: 503, resource: 'content', nth: 3, times: 2 },
    ],
    ['reset', { fault: 'reset' }],
    ['drip,bytes=2,ms=5', { fault: 'drip', bytes: 2, ms: 5 }],
    ['status:429,retry-after=7', { fault: 'status', status: 429, 'retry-after': '7' }],
    ['body:{"a":1\\,"b":2},page=2', { fault: 'body', text: '{"a":1,"b":2}', page: 2 }],
    ['redirect:http://x.invalid/?a=b', { fault: 'redirect', to: 'http://x.invalid/?a=b' }],
    ['status:403,header.x-a=1,header.x-b=2', { fault: 'status', status: 403, headers: { 'x-a': '1', 'x-b': '2' } }],
  ])('reads %s', ([text, script]) => {
    expect(parseFault(text)).toEqual(script);
  });

  it.for([
    ['nonsense:1', /There is no fault "nonsense"/],
    ['status:many', /"status" must be a number/],
    ['status:500,nht=3', /no parameter "nht"/],
    ['null-body:x', /no parameter "x"/],
  ] as const)('refuses %s', ([text, message]) => {
    expect(() => parseFault(text)).toThrow(message);
  });

  it('names every fault where one is unknown', () => {
    expect(() => parseFault('x')).toThrow(
      expect.objectContaining({ code: 'usage', hint: expect.stringContaining('gzip-bomb, huge-headers') }),
    );
    for (const { about } of Object.values(FAULTS)) expect(about).not.toBe('');
  });
});
