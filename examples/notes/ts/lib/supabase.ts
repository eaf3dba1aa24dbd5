// What this program needs of supabase-js, over a plain connection: an rpc is a function call with named arguments.

import pg from 'pg'

// Counts and tokens. PostgREST sends them as JSON numbers too.
pg.types.setTypeParser(pg.types.builtins.INT8, Number)

export const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL })

type Answer<T> = { data: T; error: null } | { data: null; error: Error }

/** Like supabase.rpc, it answers an error instead of throwing it. */
async function rpc<T>(name: string, args: Record<string, unknown> = {}): Promise<Answer<T>> {
  const named = Object.keys(args).map((key, place) => `${pg.escapeIdentifier(key)} => $${place + 1}`)
  try {
    const answer = await pool.query(
      `select * from ${pg.escapeIdentifier(name)}(${named.join(', ')})`,
      Object.values(args),
    )
    // A function that answers one value has one column of its own name.
    const scalar = answer.fields.length === 1 && answer.fields[0]?.name === name
    return { data: (scalar ? answer.rows[0][name] : answer.rows) as T, error: null }
  } catch (error) {
    return { data: null, error: error as Error }
  }
}

export const supabase = { rpc }

/** The answer of an rpc, or its error thrown. */
export async function call<T>(name: string, args?: Record<string, unknown>): Promise<T> {
  const { data, error } = await supabase.rpc<T>(name, args)
  if (error) throw error
  return data
}
