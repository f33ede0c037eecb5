import { describe, expect, it } from 'vitest';
import { refusedWith, refusing } from '../../../../src/warehouse/postgres/connection/refusing.ts';
import { asOtherClient, POSTGRES } from '../../../support/databases.ts';

/** Runs a question, and returns the value that it gives, or its error. */
async function asked(text: string, values: readonly unknown[] = []): Promise<unknown> {
  const address = await POSTGRES.address();
  return asOtherClient(address, async (client) => {
    const { rows } = await client.query<{ value: unknown }>(text, [...values]);
    return rows.map(({ value }) => value);
  }).catch((error: unknown) => error);
}

/** Refuses what is found, unless it is `$1`. */
const REFUSING = `SELECT ${refusing('max("it") = $1', 'max("it")')} AS value FROM unnest($2::text[]) AS "it"`;

function told(error: unknown): string | null {
  if (!(error instanceof Error)) throw new Error(`no error: ${String(error)}`);
  return refusedWith(error);
}

describe.skipIf(POSTGRES.missing !== null)('an expression that refuses', () => {
  it('gives 0 where its condition holds', async () => {
    expect(await asked(REFUSING, ['a', ['a']])).toEqual([0]);
  });

  it.each([
    [['b'], 'b'],
    [['b; refused: c;'], 'b; refused: c;'],
    // Neither true nor false is no "yes" either.
    [[], ''],
  ])('fails with what was found elsewhere: %j', async (values, found) => {
    expect(told(await asked(REFUSING, ['a', values]))).toBe(found);
  });

  it('is told from other errors, those of the same kind among them', async () => {
    expect(told(await asked(`SELECT ('refused' || $1::text)::int AS value`, ['x']))).toBeNull();
    expect(told(await asked('SELECT value FROM nothing_of_the_kind'))).toBeNull();
    expect(refusedWith(new Error('refused: by somebody else;'))).toBeNull();
  });
});
