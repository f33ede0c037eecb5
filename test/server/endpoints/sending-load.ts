import { Agent, request } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import type { Sent } from './receiver-stage.ts';

interface LoadPlan {
  port: () => number;
  /** Connections, each with one request at a time. */
  senders: number;
  /** Made anew for each request; the name is another one each time. */
  delivery: (name: string) => Required<Sent> & { headers: Readonly<Record<string, string>> };
  /** A sender's wait after one that was not taken; where absent, it ends when its connection breaks. */
  pauseMs?: number;
  /** A sender's wait after one that was taken; where absent, the next one follows at once. */
  restMs?: number;
}

/** How one request was answered, and when. */
export interface LoadAnswer {
  status: number;
  retryAfter: string | undefined;
  at: number;
}

export interface LoadTally {
  /** Ids that were answered with a 202. */
  ids: string[];
  answers: LoadAnswer[];
  /** What is neither a 202, a 503 nor a broken connection. */
  faults: string[];
}

/** Sends deliveries from many connections until it is stopped. */
export function sendUnderLoad(plan: LoadPlan): { underWay: () => number; stop: () => Promise<LoadTally> } {
  const { senders, delivery, pauseMs, restMs } = plan;
  const agent = new Agent({ keepAlive: true });
  const tally: LoadTally = { ids: [], answers: [], faults: [] };
  const state = { isStopped: false, underWay: 0 };

  async function one(name: string): Promise<number> {
    state.underWay += 1;
    const sent = delivery(name);
    const answer = await post(agent, plan.port(), sent);
    state.underWay -= 1;
    tally.answers.push(answer);
    const { status } = answer;
    if (status === 202) tally.ids.push(sent.headers['webhook-id'] ?? '');
    else if (status !== 0 && status !== 503) tally.faults.push(`answered with ${status}`);
    return status;
  }

  const all = Array.from({ length: senders }, async (_, sender) => {
    for (let number = 0; !state.isStopped; number += 1) {
      const status = await one(`${sender}_${number}`);
      if (status === 0 && pauseMs === undefined) return;
      const waitMs = status === 202 ? restMs : pauseMs;
      if (waitMs !== undefined) await delay(waitMs);
    }
  });
  return {
    underWay: () => state.underWay,
    stop: async () => {
      state.isStopped = true;
      await Promise.all(all);
      agent.destroy();
      return tally;
    },
  };
}

/** Status 0 where the connection broke before there was one. */
function post(agent: Agent, port: number, { path, headers, body }: Required<Sent>): Promise<LoadAnswer> {
  const { promise, resolve } = Promise.withResolvers<LoadAnswer>();
  const answered = (status: number, retryAfter?: string): void =>
    resolve({ status, retryAfter, at: performance.now() });
  request({ agent, port, host: '127.0.0.1', method: 'POST', path, headers }, (response) => {
    response.resume().on('error', () => undefined);
    answered(response.statusCode ?? 0, response.headers['retry-after']);
  })
    .on('error', () => answered(0))
    .end(body);
  return promise;
}
