/** What an analyst may ask of the demo's tables, in SQL that runs in any SQLite client. */
export const DEMO_QUESTIONS: readonly { question: string; sql: string }[] = [
  {
    question: 'Which tags are read most?',
    sql: `SELECT t.value AS tag, count(DISTINCT c.id) AS posts, sum(a.views) AS views
  FROM content c
  JOIN content_tags t ON t.content_id = c.id
  JOIN analytics a ON a.content_id = c.id
 GROUP BY t.value ORDER BY views DESC LIMIT 3`,
  },
  {
    question: 'Who wrote most, and how long are the texts?',
    sql: `SELECT w.handle AS author, count(*) AS posts, round(avg(c.word_count)) AS words
  FROM content c
  JOIN content_authors w ON w.content_id = c.id
 GROUP BY w.handle ORDER BY posts DESC, author LIMIT 3`,
  },
  {
    question: 'What was changed while we watched, and what did it say before?',
    sql: `SELECT v.id, json_extract(v.body, '$.title') AS title_before, c.title AS title_now
  FROM _sync_versions v
  JOIN content c ON c.id = v.id
 WHERE v.resource = 'content' AND v.valid_to IS NOT NULL ORDER BY v.id LIMIT 3`,
  },
];
