"""Study: findings in lines, and draws that are labelled as not private."""
