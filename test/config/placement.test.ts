import { describe, expect, it } from 'vitest';
import { placementFindings } from '../../src/config/load-settings.ts';

describe('the place of several sources', () => {
  it.each([
    ['sqlite:data/{source}.db', ['blog', 'shop'], true],
    ['sqlite:data/all.db', ['blog'], false],
    ['postgres://u:p@h/db', ['blog', 'shop'], true],
    ['postgres://u:p@h/db?schema=cms_{source}', ['blog', 'shop'], true],
    ['postgres://u:p@h/db?schema=cms', ['blog'], false],
  ])('is found with %s', (warehouse, sources, isOpen) => {
    expect(placementFindings(warehouse, sources, isOpen)).toEqual([]);
  });

  it.each([
    ['sqlite:data/all.db', ['blog', 'shop'], false, 'expected {source} in the path'],
    ['sqlite:data/all.db', ['blog'], true, 'expected {source} in the path'],
    ['postgres://u:p@h/db?schema=cms', ['blog', 'shop'], false, 'expected {source} in the schema'],
  ])('is missing with %s', (warehouse, sources, isOpen, message) => {
    const findings = placementFindings(warehouse, sources, isOpen);
    expect(findings).toMatchObject([{ path: ['warehouse'], message: expect.stringContaining(message) }]);
  });

  it.each([
    [['my-blog', 'my_blog'], 2],
    [['public'], 1],
    [['pg_blog'], 1],
  ])('collides for %j', (sources, count) => {
    const findings = placementFindings('postgres://u:p@h/db', sources, true);
    expect(findings).toHaveLength(count);
    expect(findings).toMatchObject(sources.map((name) => ({ path: ['sources', name], part: 'key' })));
  });
});
