import { describe, expect, it } from 'vitest';
import { hasBlog } from '../support/corpora.ts';
import { DATABASES } from '../support/databases.ts';
import { asking, faultIn } from './ask.ts';
import { expectedCopy } from './oracle/copy.ts';
import { HEADINGS, headingsInReadme, questionsFor } from './questions.ts';
import { blogStory } from './story/story.ts';
import { telling } from './story/told.ts';
import { longOrShort } from '../support/length.ts';

describe('the twenty questions', () => {
  it('stand in the README, each with a query for both databases', () => {
    expect(headingsInReadme()).toEqual(HEADINGS);
    expect(HEADINGS).toHaveLength(20);
    expect(questionsFor('sqlite')).toHaveLength(21);
    expect(questionsFor('postgres')).toHaveLength(21);
  });

  it.runIf(hasBlog()).each(DATABASES)('have the figures of the source files on $name', async (database) => {
    const { records, steps } = blogStory(longOrShort(1, 2));
    const told = await telling(database, records);
    for (const step of steps) await told.play(step);
    const expected = expectedCopy(told.asked);
    const questions = questionsFor(database.name);
    const ask = asking(database, told.stage);
    const zones = database.name === 'sqlite' ? ['UTC'] : ['UTC', 'America/New_York'];
    const rows = questions.map(({ heading, answer }) => ({ heading, rows: answer(expected) }));
    expect(rows.filter((each) => each.rows.length < 2)).toEqual([]);
    for (const zone of zones) {
      const answers = await ask(
        questions.map(({ query }) => query),
        zone,
      );
      const faults = rows.map((each, at) => [zone, each.heading, faultIn(answers[at], each.rows)]);
      expect.soft(faults.filter(([, , fault]) => fault !== null)).toEqual([]);
    }
  });
});
