import type { IncomingMessage, ServerResponse } from 'node:http';
import { newMeter, type AttemptEvent } from '../../../src/http/client.ts';
import { authSecretsSchema, type AuthSettings } from '../../../src/config/profile/auth.ts';
import { HandClock } from '../../support/hand-clock.ts';
import { clientFor, json, PAGE, serve, testProfile } from '../stage.ts';

/** A client of a service whose profile has this scheme; `answer` answers what is not a page. */
export async function stage(
  scheme: Record<string, unknown> | undefined,
  secrets: Record<string, unknown>,
  answer?: (request: IncomingMessage, response: ServerResponse, nth: number) => void,
) {
  const service = await serve(answer ?? ((_, response) => json(response, PAGE)));
  const secretTexts: string[] = [];
  const events: AttemptEvent[] = [];
  const clock = new HandClock();
  const auth: AuthSettings = authSecretsSchema.parse(secrets);
  const profile = testProfile({ http: { attempts: 1 }, ...(scheme === undefined ? {} : { auth: scheme }) });
  const client = clientFor(service.origin, {
    profile,
    auth,
    clock,
    secrets: secretTexts,
    log: (one) => events.push(one),
  });
  const ask = (path = '/v1/content', as?: 'nobody' | 'stranger') =>
    client.get({ url: new URL(service.origin + path), lane: 'backfill', meter: newMeter(), as });
  return { ...service, client, ask, clock, secrets: secretTexts, events, last: () => service.seen.at(-1) };
}

/** The parts of a JWT, read by hand. */
export function readJwt(text: string) {
  const [header = '', claims = '', signature = ''] = text.split('.');
  const parsed = [header, claims].map((part) => JSON.parse(Buffer.from(part, 'base64url').toString()));
  return {
    header: parsed[0],
    claims: parsed[1],
    signed: `${header}.${claims}`,
    signature: Buffer.from(signature, 'base64url'),
  };
}
