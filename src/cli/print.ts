import { scrubOwn } from '../observe/scrub/scrub.ts';
import { scrubJson } from '../observe/scrub/scrub-json.ts';
import type { CliContext } from './context.ts';

/**
 * Prints what a command found: an object as one line of JSON, a text as it is. Without secrets: what a service answered
 * and what it sent may hold them.
 */
export function print({ stdout, secrets }: Pick<CliContext, 'stdout' | 'secrets'>, found: object | string): void {
  const text = typeof found === 'string' ? scrubOwn(found, secrets) : scrubJson(JSON.stringify(found), secrets);
  stdout.write(`${text}\n`);
}
