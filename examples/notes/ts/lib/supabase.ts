// The part of supabase-js that this program needs, over a plain connection: an rpc is a function call with named arguments.

import pg from 'pg'

// Parse counts and tokens as numbers. PostgREST sends them as JSON numbers, too.
pg.types.setTypeParser(pg.types.builtins.INT8, Number)

export const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL })

type Answer<T> = { data: T; error: null } | { data: null; error: Error }

/** Like supabase.rpc, it returns an error instead of throwing it. */
async function rpc<T>(name: string, args: Record<string, unknown> = {}): Promise<Answer<T>> {
  const named = Object.keys(args).map((key, place) => `${pg.escapeIdentifier(key)} => $${place + 1}`)
  try {
    const answer = await pool.query(
      `select * from ${pg.escapeIdentifier(name)}(${named.join(', ')})`,
      Object.values(args),
    )
    // A function that returns one value has one column with its own name.
    const scalar = answer.fields.length === 1 && answer.fields[0]?.name === name
    return { data: (scalar ? answer.rows[0][name] : answer.rows) as T, error: null }
  } catch (error) {
    return { data: null, error: error as Error }
  }
}

export const supabase = { rpc }

/** Returns the result of an rpc, or throws its error. */
export async function call<T>(name: string, args?: Record<string, unknown>): Promise<T> {
  const { data, error } = await supabase.rpc<T>(name, args)
  if (error) throw error
  return data
}
